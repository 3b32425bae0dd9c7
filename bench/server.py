"""Our inference server beside others, one sentence a request: ``python -m bench.server --peers FOLDER``.

The server has one core, the generator another one. Each round asks every server once, in another order, so that what
the machine does meanwhile hits all of them; ratios are formed within a round. FOLDER is the environment with LitServe
and Mosec that ``make bench-server`` makes; who is not installed is left out, and said to be.

Exit code 1: below 1.8 times the best server as documented, 1.15 times Mosec with a length sort, or 0.85 of the model in
a tight loop; or a server's answers are not the model's.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.server_cast import DOCUMENTED, OURS, OURS_BF16, SORTED, Stage
from bench.server_report import Report, write_between
from bench.server_rounds import Ceiling, Row, Times, ceiling, layer, play
from bench.server_work import weights

LAYERS: Final = (OURS, *DOCUMENTED)
QUICK: Final = Times(0.5, 1.0)


def main() -> int:
    """0: every floor is kept, or the bench cannot run here and says so."""
    options = _options()
    folder, cores = weights(), sorted(os.sched_getaffinity(0))
    if folder is None or len(cores) < 2:
        print("skipped: needs the weights (locks/weights.txt) and two cores", file=sys.stderr)
        return 0
    os.sched_setaffinity(0, {cores[1]})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # An exception, so that the servers are ended, too.
    with tempfile.TemporaryDirectory() as scratch:
        stage = Stage(frozenset({cores[0]}), options.peers, Path(scratch), folder, options.quick)
        missing = stage.missing()
        for name, why in missing.items():
            print(f"left out: {name}: {why}", file=sys.stderr)
        names = [name for name in (OURS, *DOCUMENTED, SORTED, OURS_BF16) if name not in missing]
        times = QUICK if options.quick else Times(options.seconds)
        report = measure(stage, names, 1 if options.quick else options.rounds, times)
    print(report.markdown())
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report.document(), indent=1) + "\n")
    if options.page is not None:
        write_between(options.page, report.markdown())
    faults = report.wrong() + ([] if options.quick else report.below())
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def measure(stage: Stage, names: list[str], rounds: int, times: Times) -> Report:
    """Raises OSError when a server does not start."""
    played: list[dict[str, Row]] = []
    loops: list[Ceiling] = []
    layers: list[dict[str, float]] = []
    for number in range(rounds):
        alone = ceiling(stage, times, number)
        loops.append(alone)
        found = {name: play(name, stage, times, number, alone) for name in rotated(names, number)}
        played.append({name: found[name] for name in names})
        measured = rotated([name for name in LAYERS if name in names], number)
        layers.append({name: layer(name, stage, times) for name in measured})
        so_far = Report(played, loops, layers).ratios()
        told = ", ".join(f"{name} {ratio}" for name, ratio in so_far.items())
        print(f"round {number + 1} of {rounds}, ours to: {told}", file=sys.stderr)
    return Report(played, loops, layers)


def rotated(names: list[str], number: int) -> list[str]:
    at = number % len(names)
    return names[at:] + names[:at]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.server", description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=Path, help="a virtual environment with LitServe and Mosec")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each phase")
    parser.add_argument("--quick", action="store_true", help="one short round and no thresholds: does it run at all?")
    parser.add_argument("--out", type=Path, help="write all of it as JSON")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
