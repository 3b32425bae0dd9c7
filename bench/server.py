"""Our inference server beside others, one sentence a request: ``python -m bench.server [--peers FOLDER]``.

The server has one core, the generator another one. Each round asks every server once, so that what the machine does
meanwhile hits all of them; ratios are formed within a round, and their medians are printed. FOLDER is a virtual
environment with LitServe and Mosec (``python -m venv FOLDER; FOLDER/bin/pip install litserve mosec``); who is not
installed is left out, and said to be.

Exit code 1: below 1.8 times the best server as documented, 1.15 times Mosec with a length sort, or 0.85 of the model in
a tight loop.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.server_cast import OURS, Running, interpreter_of, one_layer, python_path, serving, started
from bench.server_load import Seen, closed_loop, cpu_s, open_loop
from bench.server_work import sentences, weights

LINES: Final = 64
# An answer counts in throughput and goodput up to this: twice what a queue of half a second makes of it.
LIMIT_S: Final = 1.0
WINDOW: Final = 20
DOCUMENTED: Final = ("plain", "litserve", "mosec")
SORTED: Final = "mosec-sorted"
FLOORS: Final = {"best documented": 1.8, SORTED: 1.15, "tight loop": 0.85}


@dataclass(frozen=True, slots=True)
class Row:
    """One server in one round. Rates a second; ``p99_s`` of the busiest phase; ``back_s`` None: not in time."""

    rate: float
    p99_s: float
    goodput: float = 0.0
    refused: int = 0
    refused_p99_s: float = 0.0
    back_s: float | None = None


def main() -> int:
    """0: every floor is kept, or the bench cannot run here and says so."""
    options = _options()
    folder, cores = weights(), sorted(os.sched_getaffinity(0))
    if folder is None or len(cores) < 2:
        print("skipped: needs the weights (locks/weights.txt) and two cores", file=sys.stderr)
        return 0
    os.sched_setaffinity(0, {cores[1]})
    peers: Path | None = options.peers
    missing = _missing(peers)
    for name, why in missing.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    names = [OURS, *(name for name in (*DOCUMENTED, SORTED) if name not in missing)]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        rounds, loops = [], []
        for number in range(options.rounds):
            loops.append(_tight_loop(folder, peers, {cores[0]}, work))
            rounds.append(
                {
                    name: _play(name, folder, peers, {cores[0]}, work, options.seconds, number)
                    for name in names[number % len(names) :] + names[: number % len(names)]
                }
            )
        layer = {
            name: _layer(name, folder, peers, {cores[0]}, work, options.seconds) for name in names if name != SORTED
        }
    print(table(rounds, loops))
    print(layer_table(layer))
    kept = floors(rounds, loops)
    for name, ratio in kept.items():
        print(f"{name}: {ratio:.2f}, at least {FLOORS[name]}")
    return 0 if all(ratio >= FLOORS[name] for name, ratio in kept.items()) else 1


def floors(rounds: Sequence[dict[str, Row]], loops: Sequence[float]) -> dict[str, float]:
    """Median ratios of our throughput, of those that were measured."""
    found = {"tight loop": statistics.median(each[OURS].rate / loop for each, loop in zip(rounds, loops, strict=True))}
    documented = [name for name in DOCUMENTED if name in rounds[0]]
    if documented:
        best = [each[OURS].rate / max(each[name].rate for name in documented) for each in rounds]
        found["best documented"] = statistics.median(best)
    if SORTED in rounds[0]:
        found[SORTED] = statistics.median(each[OURS].rate / each[SORTED].rate for each in rounds)
    return found


def table(rounds: Sequence[dict[str, Row]], loops: Sequence[float]) -> str:
    """Medians over the rounds, in Markdown."""
    lines = [
        "| server | throughput / tight loop | ours / this | p99 ms | goodput at 2x | refused p99 ms | normal s |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in sorted(rounds[0]):
        rows = [each[name] for each in rounds]
        share = statistics.median(row.rate / loop for row, loop in zip(rows, loops, strict=True))
        ours = statistics.median(each[OURS].rate / each[name].rate for each in rounds)
        p99 = statistics.median(row.p99_s for row in rows) * 1000
        good = statistics.median(row.goodput / row.rate for row in rows)
        refused = statistics.median(row.refused_p99_s for row in rows) * 1000
        back = [row.back_s for row in rows if row.back_s is not None]
        late = len(rows) - len(back)
        normal = f"not in {late} of {len(rows)} rounds" if late else f"{statistics.median(back):.1f}"
        told = f"{refused:.1f}" if any(row.refused for row in rows) else "none refused"
        lines.append(f"| {name} | {share:.2f} | {ours:.2f} | {p99:.0f} | {good:.2f} | {told} | {normal} |")
    return "\n".join(lines)


def layer_table(layer: dict[str, tuple[float, float]]) -> str:
    """CPU of a request where the model costs nothing; of ours its one-layer model is in the second figure."""
    lines = ["| server | us a request, the process that speaks HTTP | all processes |", "|---|---:|---:|"]
    lines += [f"| {name} | {front * 1e6:.0f} | {every * 1e6:.0f} |" for name, (front, every) in layer.items()]
    return "\n".join(lines)


def back_to_normal(after: Seen, usual_s: float) -> float | None:
    """Seconds into the phase after an overload from which a window of answers is as quick as twice the usual."""
    answers = sorted(after.answers)
    for at in range(len(answers) - WINDOW + 1):
        window = answers[at : at + WINDOW]
        quick = statistics.median(took if status == 200 else float("inf") for _, status, took in window)
        if quick <= 2 * usual_s:
            return window[0][0]
    return None


def _play(name: str, folder: Path, peers: Path | None, cores: set[int], work: Path, seconds: float, number: int) -> Row:
    with serving(name, folder, peers=peers, cores=cores, work=work) as running:
        return asyncio.run(_phases(running, seconds, number))


async def _phases(running: Running, seconds: float, number: int) -> Row:
    port, requests = running.port, running.requests(sentences(number, 4096))
    await closed_loop(port, requests, lines=LINES, seconds=min(1.0, seconds))
    busy = await closed_loop(port, requests, lines=LINES, seconds=seconds)
    rate = busy.good(LIMIT_S) / busy.seconds
    half = await open_loop(port, requests, rate=rate / 2, seconds=seconds, seed=number)
    double = await open_loop(port, requests, rate=rate * 2, seconds=seconds, seed=number + 1)
    after = await open_loop(port, requests, rate=rate / 2, seconds=5.0, seed=number + 2)
    refused = sum(1 for _, status, _ in double.answers if status in (429, 503))
    return Row(
        rate=rate,
        p99_s=busy.percentile(0.99),
        goodput=double.good(LIMIT_S) / double.seconds,
        refused=refused,
        refused_p99_s=double.percentile(0.99, 429) if refused else 0.0,
        back_s=back_to_normal(after, half.percentile(0.5)),
    )


def _layer(
    name: str, folder: Path, peers: Path | None, cores: set[int], work: Path, seconds: float
) -> tuple[float, float]:
    """CPU seconds a request: of the HTTP process, and of all."""
    small = None
    if name == OURS:
        small = work / "one-layer"
        if not small.exists():
            one_layer(folder, small)
    with serving(name, small, peers=peers, cores=cores, work=work) as running:
        requests = running.requests(["red shirt"])
        asyncio.run(closed_loop(running.port, requests, lines=LINES, seconds=0.5))
        before = cpu_s(running.group), cpu_s(running.group, only=running.front)
        seen = asyncio.run(closed_loop(running.port, requests, lines=LINES, seconds=seconds))
        every, front = cpu_s(running.group) - before[0], cpu_s(running.group, only=running.front) - before[1]
        return front / seen.good(), every / seen.good()


def _tight_loop(folder: Path, peers: Path | None, cores: set[int], work: Path) -> float:
    log = work / "ceiling.log"
    with started(
        ["-m", "bench.server_peers", "ceiling", "0", str(folder)], peers=peers, cores=cores, log=log
    ) as process:
        process.wait()
    return float(log.read_text().split()[-1])


def _missing(peers: Path | None) -> dict[str, str]:
    """Who cannot be imported, and why."""
    found = {}
    for name, package in (("litserve", "litserve"), ("mosec", "mosec"), (SORTED, "mosec")):
        tried = subprocess.run(
            [sys.executable if peers is None else interpreter_of(peers), "-c", f"import {package}"],
            env={**os.environ, "PYTHONPATH": python_path()},
            capture_output=True,
            text=True,
            check=False,
        )
        if tried.returncode:
            found[name] = tried.stderr.strip().splitlines()[-1]
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.server", description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=Path, help="a virtual environment with LitServe and Mosec")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each phase")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
