"""What the compile cache saves at a second start: ``python -m bench.warm_start [--rounds 3] [--device tpu-emulator]``.

Each round starts our server twice, the first time with an empty cache. Exit code 1: a second start compiled, by
torch_tpu's own counter or by what it says of its shapes, or the median of the rounds is below 2.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.own_server import started
from bench.server_work import weights

BATCHES: Final = (1, 4)
LENGTHS: Final = (16, 32, 64)
LEAST: Final = 2.0


@dataclass(frozen=True, slots=True)
class Start:
    """``compiles``: torch_tpu's counter; ``cached``: how many of ``shapes`` came from a cache; ``first_s``: the first
    calls of all shapes together; ``ready_s``: from the start of the process.
    """

    compiles: int
    cached: int
    shapes: int
    first_s: float
    ready_s: float

    @classmethod
    def of(cls, health: dict[str, Any], compiles: float) -> "Start":
        warmed = health["warm_up"]
        return cls(
            int(compiles),
            sum(1 for each in warmed if each["source"] == "cache"),
            len(warmed),
            sum(each["first_s"] for each in warmed),
            health["cold_s"],
        )


Round = tuple[Start, Start]


def problems(rounds: Sequence[Round]) -> list[str]:
    """Empty: all is well."""
    found = []
    for number, (cold, warm) in enumerate(rounds, start=1):
        if cold.compiles != cold.shapes:
            found.append(f"round {number}: the first start compiled {cold.compiles} of {cold.shapes} shapes")
        if warm.compiles or warm.cached != warm.shapes:
            found.append(
                f"round {number}: the second start compiled {warm.compiles}, {warm.cached} of {warm.shapes} from cache"
            )
    median = statistics.median(cold.first_s / warm.first_s for cold, warm in rounds)
    if median < LEAST:
        found.append(f"a first call took {median:.2f} times as long without the cache, at least {LEAST:g} is wanted")
    return found


def table(rounds: Sequence[Round]) -> str:
    """Ratios alone, in Markdown: seconds are the machine's."""
    lines = ["| round | compiled, then | from cache | first calls, without / with | to ready, without / with |"]
    lines.append("|---|---|---|---:|---:|")
    ratios = [(cold.first_s / warm.first_s, cold.ready_s / warm.ready_s) for cold, warm in rounds]
    for number, ((cold, warm), (first, ready)) in enumerate(zip(rounds, ratios, strict=True), start=1):
        counts = f"{cold.compiles}, {warm.compiles} | {warm.cached} of {warm.shapes}"
        lines.append(f"| {number} | {counts} | {first:.1f} | {ready:.1f} |")
    medians = [statistics.median(each) for each in zip(*ratios, strict=True)]
    lines.append(f"| median | | | {medians[0]:.1f} | {medians[1]:.1f} |")
    return "\n".join(lines)


def main() -> int:
    """0: no problem, or it cannot run here and says so."""
    parser = argparse.ArgumentParser(prog="python -m bench.warm_start", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="tpu-emulator", help="tpu or tpu-emulator")
    options = parser.parse_args()
    folder = weights()
    if folder is None:
        print("skipped: needs the weights (locks/weights.txt)", file=sys.stderr)
        return 0
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as scratch:
            rounds.append(
                (_start(folder, Path(scratch), options.device), _start(folder, Path(scratch), options.device))
            )
    print(table(rounds))
    found = problems(rounds)
    for problem in found:
        print(f"PROBLEM {problem}")
    return 1 if found else 0


def _start(folder: Path, work: Path, device: str) -> Start:
    with started(folder, work, device=device, batch=BATCHES, length=LENGTHS, cache=work / "cache") as server:
        found = Start.of(server.health(), server.metrics("canary_server_compiles_total")["warm_up"])
        server.end()
    return found


if __name__ == "__main__":
    sys.exit(main())
