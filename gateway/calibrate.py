"""``canary-gateway calibrate``: a plan against the recorded traffic of the baseline, beside a gateway that runs or not.

Nothing is written, nothing is locked, and no port is opened.
"""

import argparse
import json
import re
import shutil
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from gateway.adapters.clock import SystemClock
from gateway.adapters.plan_document import parse_plan
from gateway.adapters.state_dir import store_to_read
from gateway.adapters.store_evidence import read_recording
from gateway.config import ConfigError, load
from gateway.core.calibration.recording import TooLittle, recording_of
from gateway.core.calibration.report import RUNS, Calibration, FalseAlarms, Found, Spell, calibrate
from gateway.core.plan import Plan, PlanError
from gateway.core.tape import Told, unpack
from gateway.ports import EvidenceRow, StateDirError, StoreUnavailable

EXIT_NOTHING = 1
EXIT_USAGE = 2
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MODES = {
    "split": "Alike     split by request",
    "apart": "Alike     spells of their own",
}


def run(words: list[str]) -> int:
    """Exit codes: 0 calibrated, 1 nothing or too little recorded, 2 configuration, plan or usage refused."""
    given = _parser().parse_args(words)
    try:
        config = load(given.config)
        plan = _plan(given.plan, config.rollout)
    except ConfigError as error:
        return _refused(EXIT_USAGE, *(f"{error.source}: {problem}" for problem in error.problems))
    since = 0.0 if given.run else SystemClock().wall() - given.since
    try:
        rows = read_recording(store_to_read(config.state_dir), config.rollout, run_id=given.run, since=since)
        told, notes = _told(rows, plan)
        recording = recording_of(told, plan, width_s=plan.rule.window_s)
    except (StateDirError, StoreUnavailable, TooLittle) as error:
        return _refused(EXIT_NOTHING, str(error))
    found = calibrate(recording, plan, seed=given.seed, runs=given.runs)
    print(json.dumps({**asdict(found), "notes": [*notes, *found.notes]}) if given.json else _text(found, notes))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="canary-gateway calibrate",
        description="Play a plan on the recorded traffic of the baseline: false alarms, spells, preset.",
    )
    parser.add_argument("--config", type=Path, required=True, help="the gateway's configuration")
    parser.add_argument("--plan", type=Path, required=True, help="the plan to be calibrated")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--since", type=_span, default=86_400.0, metavar="SPAN", help="as 90m, 24h, 7d (default 24h)")
    which.add_argument("--run", default="", metavar="ID", help="what the baseline got during this run instead")
    parser.add_argument("--seed", type=_count, default=1, help="of the draws (default %(default)s)")
    parser.add_argument("--runs", type=_runs, default=RUNS, help="to be played, of each kind (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser


def _span(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no span; as 90m, 24h, 7d")
    return float(int(found[1]) * _UNITS[found[2]])


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 0 or more")
    return int(text)


def _runs(text: str) -> int:
    if not 1 <= (runs := _count(text)) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} must lie between 1 and 10000")
    return runs


def _plan(path: Path, rollout: str) -> Plan:
    """Raises ConfigError with every problem."""
    try:
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:  # its tags raise them all
        raise ConfigError(str(path), [f"is not YAML: {error}"]) from error
    if not isinstance(document, dict):
        raise ConfigError(str(path), [f"holds {type(document).__name__}; a mapping with kind: Plan is needed"])
    try:
        return parse_plan(document, rollout)[0]
    except PlanError as error:
        raise ConfigError(str(path), error.problems) from error


def _told(rows: list[EvidenceRow], plan: Plan) -> tuple[list[Told], list[str]]:
    """What can be read, of windows as wide as the plan's. Raises TooLittle when none is."""
    width = plan.rule.window_s
    fitting = [row for row in rows if row.width_s == width]
    if rows and not fitting:
        raise TooLittle(
            f"recorded are windows of {rows[-1].width_s:g} s, and this plan judges windows of {width:g} s; take"
            " the windows of a run with such a plan: --run ID"
        )
    told: list[Told] = []
    unreadable = 0
    for row in fitting:
        try:
            told += unpack(row.data)
        except ValueError:
            unreadable += 1
    notes = [f"{unreadable} of {len(fitting)} recorded windows cannot be read by this version"] if unreadable else []
    return told, notes


def _refused(code: int, *problems: str) -> int:
    for problem in problems:
        print(f"canary-gateway calibrate: {problem}", file=sys.stderr)
    return code


def _text(found: Calibration, notes: list[str]) -> str:
    """As wide as the terminal, at most 100 columns."""
    counted = found.windows - found.exact_windows
    limits = f" In {counted} of them limits are read from histograms, to 2 %." if counted else ""
    lines = [
        f"Recorded  {found.requests:,} requests of the baseline in {found.windows} windows of {found.window_s:g} s with"
        f" traffic: {found.requests_per_s:.3g} a second.{limits}",
        "",
        *(_alarm(each) for each in found.alarms),
        "",
        *(_spell(each) for each in found.spells),
        "",
        *(_doubled(each) for each in found.found),
        "",
        f"Preset    {found.preset}: {found.why}",
        *(f"Note      {note}" for note in (*notes, *found.notes)),
    ]
    columns = max(40, min(100, shutil.get_terminal_size((100, 24)).columns))
    return "\n".join(textwrap.fill(line, columns, subsequent_indent=" " * 10) for line in lines)


def _alarm(each: FalseAlarms) -> str:
    rate = f"{100 * each.low:.3g} to {100 * each.high:.3g} %"
    what = f"{each.rolled_back} of {each.runs} rolled back ({rate}), {each.promoted} promoted"
    return f"{_MODES[each.mode]:<30} {each.preset:<9} {what}"


def _doubled(each: Found) -> str:
    when = "mostly not found" if each.median_s is None else f"rolled back after {each.median_s:g} s (median)"
    return f"{'Doubled   latencies':<30} {each.preset:<9} {when}; {each.rolled_back} of {each.runs} runs within an hour"


def _spell(each: Spell) -> str:
    if each.lasts_s is None:
        lasts = "too few bad events to say"
    else:
        lasts = f"about {each.lasts_s:g} s" if each.lasts_s else "none seen"
    missed = f"the baseline misses {100 * each.rate:.3g} %, {100 * each.allowed:.3g} % is allowed"
    return f"Spells    {each.metric:<8} {lasts}; {missed}"
