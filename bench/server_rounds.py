"""What is measured of one server in one round."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import uvloop

from bench.server_cast import OURS, Running, Stage, serving, started
from bench.server_load import Line, Seen, closed_loop, cpu_s, open_loop
from bench.server_work import CHECKED, sentences

# How many connections are kept busy: the most with which the p99 stays inside the limit, from the first on.
LINES: Final = (64, 32, 16, 8, 4)
# The limit of an answer in throughput (the p99) and goodput is what the tight loop needs for so many sentences: about a
# second on a quick core, and more where the machine is slow or busy.
LIMIT_SENTENCES: Final = 250
AFTER_S: Final = 5.0
WINDOW: Final = 20
REFUSALS: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: of each phase, and those that are watched after an overload."""

    phase: float = 4.0
    after: float = AFTER_S


@dataclass(frozen=True, slots=True)
class Row:
    """One server in one round. ``rate``: answers a second with ``lines`` connections, ``p99_s`` of them, ``cpu_s`` that
    one took in all processes.

    At twice that rate: ``goodput`` is the share of ``rate`` that was answered in time, ``refusals`` how many were
    refused and ``refused_*_s`` how soon, ``back_s`` when it was normal again (None: not while it was watched).
    ``cosine`` is the smallest of the checked answers.
    """

    rate: float
    lines: int = LINES[0]
    p99_s: float = 0.0
    cpu_s: float = 0.0
    goodput: float = 0.0
    refusals: int = 0
    refused_p50_s: float = 0.0
    refused_p99_s: float = 0.0
    back_s: float | None = None
    cosine: float = 1.0


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The model alone: sentences a second, CPU seconds of one, and the vectors of the round's first ones."""

    rate: float
    cpu_s: float
    vectors: list[list[float]]

    @property
    def limit_s(self) -> float:
        return LIMIT_SENTENCES / self.rate


def play(name: str, stage: Stage, times: Times, number: int, alone: Ceiling) -> Row:
    """Raises OSError when the server does not start."""
    with serving(name, stage, limit_s=alone.limit_s) as running:
        row: Row = uvloop.run(_phases(running, times, number, alone))
        return row


async def _phases(running: Running, times: Times, number: int, alone: Ceiling) -> Row:
    port, requests = running.port, running.requests(sentences(number, 4096))
    limit_s = alone.limit_s
    least = await _cosine(running, requests[: len(alone.vectors)], alone.vectors)
    await closed_loop(port, requests, lines=LINES[0], seconds=times.phase / 4)
    lines, busy, cpu = await _busy(running, requests, times, limit_s)
    rate = max(1, busy.good(limit_s)) / busy.seconds
    half = await open_loop(port, requests, rates=[(rate / 2, times.phase)], seed=number)
    seen = await open_loop(port, requests, rates=[(rate * 2, times.phase), (rate / 2, times.after)], seed=number + 1)
    double, after = seen.between(0, times.phase), seen.between(times.phase, times.phase + times.after)
    refusals = sum(1 for _, status, _ in double.answers if status in REFUSALS)
    return Row(
        rate=rate,
        lines=lines,
        p99_s=busy.percentile(0.99),
        cpu_s=cpu,
        goodput=double.good(limit_s) / double.seconds / rate,
        refusals=refusals,
        refused_p50_s=double.percentile(0.5, *REFUSALS) if refusals else 0.0,
        refused_p99_s=double.percentile(0.99, *REFUSALS) if refusals else 0.0,
        back_s=back_to_normal(after, half.percentile(0.5)),
        cosine=least,
    )


async def _busy(running: Running, requests: Sequence[bytes], times: Times, limit_s: float) -> tuple[int, Seen, float]:
    """With the most connections that keep the p99 inside the limit, or with the fewest; and the CPU of an answer."""
    for lines in LINES:
        before = cpu_s(running.group)
        seen = await closed_loop(running.port, requests, lines=lines, seconds=times.phase)
        cpu = (cpu_s(running.group) - before) / max(1, seen.good())
        if seen.percentile(0.99) <= limit_s or lines == LINES[-1]:
            return lines, seen, cpu
    raise AssertionError("the last number of lines is taken as it is")


async def _cosine(running: Running, requests: Sequence[bytes], reference: Sequence[Sequence[float]]) -> float:
    line, least = Line(running.port), 1.0
    for request, wanted in zip(requests, reference, strict=True):
        status, body = await line.ask(request)
        least = min(least, cosine(running.vector(body), wanted) if status == 200 else -1.0)
    await line.close()
    return least


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """-1 of vectors that cannot be compared."""
    norms = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / norms if norms and len(left) == len(right) else -1.0


def back_to_normal(after: Seen, usual_s: float) -> float | None:
    """Seconds into the phase after an overload from which a window of answers is as quick as twice the usual."""
    answers = sorted(after.answers)
    for at in range(len(answers) - WINDOW + 1):
        window = answers[at : at + WINDOW]
        quick = statistics.median(took if status == 200 else math.inf for _, status, took in window)
        if quick <= 2 * usual_s:
            return window[0][0]
    return None


def layer(name: str, stage: Stage, times: Times) -> float:
    """CPU seconds a request of all processes of a server whose model costs nothing. Raises OSError.

    The peers do not tokenise in it, so ours gets token ids.
    """
    with serving(name, stage, layer=True) as running:
        requests = running.requests([[101, 2417, 3797, 102] if name == OURS else "red shirt"])
        uvloop.run(closed_loop(running.port, requests, lines=LINES[0], seconds=times.phase / 4))
        before = cpu_s(running.group)
        seen: Seen = uvloop.run(closed_loop(running.port, requests, lines=LINES[0], seconds=times.phase))
        return (cpu_s(running.group) - before) / max(1, seen.good())


def ceiling(stage: Stage, times: Times, number: int) -> Ceiling:
    """In a process of its own, on the servers' core."""
    log = stage.work / "ceiling.log"
    words = ["-m", "bench.server_peers", "ceiling", str(number), str(stage.weights), str(times.phase)]
    with started("ceiling", words, stage, log) as process:
        process.wait()
    found: dict[str, Any] = json.loads(log.read_text().splitlines()[-1])
    assert len(found["vectors"]) == CHECKED
    return Ceiling(found["rate"], found["cpu_s"], found["vectors"])
