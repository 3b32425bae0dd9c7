"""The decision rule on simulated traffic, beside emulations of what other tools document.

``python -m bench.decisions`` prints two tables and writes every count as JSON with ``--out``. All seeds are arguments
and the result is the same on every machine. Exit 1 when the judge rolled back more than 5 % of the healthy candidates
of any seed set, or missed a gross fault in more than 5 % of the runs.
"""

import argparse
import itertools
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.faults import FAULTS, GROSS
from bench.scoring import fault_rows, null_rows, problems
from bench.streams import KINDS, PROMISED, long_run
from bench.tables import fault_table, null_table, pass_table
from bench.trials import COPIES_BP, DEFAULT_RULES, GROUNDS, NEXT_BP, RATE, RULES, RUN_S, Task, Trial, play

DEFAULT_SEEDS: Final = (101, 202, 303)
DEFAULT_RUNS: Final = 100
DEFAULT_FAULT_RUNS: Final = 40
DEFAULT_WEIGHTS: Final = (1000, 5000)
PROGRESS_S: Final = 20.0


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    started = time.monotonic()
    trials = run(list(tasks(options)), processes=options.processes)
    nulls, faults = null_rows(trials), fault_rows(trials)
    if nulls:
        print(f"False rollbacks of healthy candidates in {RUN_S // 60} min, {options.runs} runs a seed set\n")
        print(null_table(nulls) + "\n")
        print("Healthy candidates let on, and when\n")
        print(pass_table(nulls) + "\n")
    if faults:
        share = options.weights[0] / 100
        print(f"Faults at {share:g} %, {options.fault_runs} runs a seed set: found, seconds, bad live requests\n")
        print(fault_table(faults) + "\n")
    wrong = problems(nulls, faults)
    for line in wrong:
        print(f"FAILED {line}")
    if options.out is not None:
        document = {
            "seeds": options.seeds,
            "rate": RATE,
            "run_s": RUN_S,
            "copies_bp": COPIES_BP,
            "nulls": [asdict(row) for row in nulls],
            "faults": [asdict(row) for row in faults],
            "problems": wrong,
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(trials)} trials, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 1 if wrong else 0


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Every stream to draw. Healthy arms at every weight, faults at the first on default streams."""
    rules, weights = tuple(options.rules), tuple(options.weights)
    grounds = tuple(name for name in GROUNDS if name in options.scenarios)
    if grounds:
        for kind, seed, i in itertools.product(options.kinds, options.seeds, range(options.runs)):
            yield Task(kind=kind, seed=seed, run=i, rules=rules, weights_bp=weights, grounds=grounds)
    faults = [name for name in options.scenarios if name in FAULTS]
    for fault, seed, i in itertools.product(faults, options.seeds, range(options.fault_runs)):
        yield Task(kind="default", seed=seed, run=i, rules=rules, weights_bp=weights[:1], fault=fault)


def run(todo: Sequence[Task], *, processes: int) -> list[Trial]:
    """Plays the tasks; the trials in the order of the tasks, however many processes there are."""
    for kind in dict.fromkeys(task.kind for task in todo):
        long_run(KINDS[kind])  # once, before the processes part
    if processes == 1:
        return _gathered(map(play, todo), len(todo))
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return _gathered(pool.imap(play, todo, chunksize=4), len(todo))


def _gathered(played: Iterable[list[Trial]], of: int) -> list[Trial]:
    trials: list[Trial] = []
    told = time.monotonic()
    for i, batch in enumerate(played, start=1):
        trials += batch
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            print(f"{i} of {of} streams", file=sys.stderr, flush=True)
    return trials


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.decisions", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=list(DEFAULT_SEEDS), help="seed sets: numbers, comma between")
    parser.add_argument("--runs", type=_count, default=DEFAULT_RUNS, help="healthy runs a seed set and kind of stream")
    parser.add_argument("--fault-runs", type=_count, default=DEFAULT_FAULT_RUNS, help="runs a seed set and fault")
    parser.add_argument("--rules", type=_names(RULES), default=list(DEFAULT_RULES), help=f"of {', '.join(RULES)}")
    parser.add_argument(
        "--scenarios",
        type=_names((*GROUNDS, *FAULTS)),
        default=[*GROUNDS, *GROSS],
        help=f"of {', '.join((*GROUNDS, *FAULTS))}; without it, the healthy ones and the gross faults",
    )
    parser.add_argument("--kinds", type=_names(tuple(KINDS)), default=list(PROMISED), help=f"of {', '.join(KINDS)}")
    parser.add_argument(
        "--weights", type=_weights, default=list(DEFAULT_WEIGHTS), help="basis points; faults run at the first"
    )
    parser.add_argument("--processes", type=_count, default=2)
    parser.add_argument("--out", type=Path, default=None, help="file for every count, as JSON")
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number above 0")
    return int(text)


def _seeds(text: str) -> list[int]:
    return [_count(part) for part in text.split(",")]


def _weights(text: str) -> list[int]:
    weights = [_count(part) for part in text.split(",")]
    if unknown := [weight for weight in weights if weight not in NEXT_BP]:
        raise argparse.ArgumentTypeError(f"{unknown} must be of {list(NEXT_BP)} basis points")
    return weights


class _names:
    """A list of known names, comma between; ``all`` is every one."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = list(known)

    def __call__(self, text: str) -> list[str]:
        names = self._known if text == "all" else text.split(",")
        if unknown := [name for name in names if name not in self._known]:
            raise argparse.ArgumentTypeError(f"{unknown} must be of {self._known}, or all")
        return names


if __name__ == "__main__":
    sys.exit(main())
