"""Our server under mixed requests that it serves, for long: ``python -m bench.soak --requests 50000 --device cpu``.

Both protocols, every declared shape, texts and token ids, tensors in the JSON and behind it, half precisions,
compressed bodies, requests of several batches, copies, deadlines that are kept and some that cannot be, clients that
leave. Every answer is compared with that of its rows alone. Exit code 1: a wrong answer, a compile after warm-up, a
shape that was never run, a place in the queue that was not given back, memory that grows, or no clean end.
"""

import argparse
import asyncio
import collections
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.own_server import Server, started
from bench.server_work import weights
from bench.soak_questions import TOLERANCE, Pool, Question, Vectors, Wrong, check, vectors

BATCHES: Final = (1, 2, 4)
LENGTHS: Final = (8, 16, 32)
LINES: Final = 8
GROWTH_BYTES: Final = 48 * 1024 * 1024
"""Of the front and of the worker, from the first tenth on: what an allocator takes for itself, far below a leak that
would matter."""
SHOWN: Final = 5


@dataclass(slots=True)
class Report:
    """``answers`` by status (0: left before it); ``buckets``: batches run, by shape; ``grown``: bytes."""

    requests: int
    answers: "collections.Counter[int]" = field(default_factory=collections.Counter)
    kinds: "collections.Counter[str]" = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)
    buckets: dict[str, int] = field(default_factory=dict)
    compiles: int = -1
    waiting: int = -1
    restarts: int = -1
    grown: dict[str, int] = field(default_factory=dict)
    code: int = -1
    seconds: float = 0.0

    def problems(self) -> list[str]:
        """Empty: all is well."""
        declared = {f"{batch}x{length}" for batch in BATCHES for length in LENGTHS}
        found = list(self.wrong[:SHOWN])
        if len(self.wrong) > SHOWN:
            found.append(f"and {len(self.wrong) - SHOWN} more wrong answers")
        if sum(self.answers.values()) != self.requests:
            found.append(f"{sum(self.answers.values())} of {self.requests} requests came to an end")
        if missing := sorted(declared - {name for name, count in self.buckets.items() if count}):
            found.append(f"never run: {', '.join(missing)}")
        for name, value in (
            ("compiles after warm-up", self.compiles), ("rows still waiting", self.waiting),
            ("restarts", self.restarts), ("exit code", self.code),
        ):  # fmt: skip
            if value:
                found.append(f"{name}: {value}")
        found += [f"{name} grew by {by >> 20} MiB" for name, by in self.grown.items() if by > GROWTH_BYTES]
        return found


class Caller:
    """One connection that is kept as long as it lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, question: Question, *, leave: bool = False) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; status 0 for who leaves once all is sent. Raises OSError, EOFError, ValueError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        lines = [f"{name}: {value}" for name, value in question.headers.items()]
        lines = [f"POST {question.path} HTTP/1.1", "host: x", f"content-length: {len(question.body)}", *lines]
        writer.write("\r\n".join([*lines, "", ""]).encode() + question.body)
        await writer.drain()
        if leave:
            await self.close()
            return 0, {}, b""
        first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        body = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            await self.close()
        return int(first.split()[1]), headers, body

    async def close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()


def one_layer(folder: Path, to: Path) -> Path:
    """The cheapest model of the same width: the first layer, with an inner width of 8."""
    from safetensors.numpy import load_file, save_file

    for path in folder.rglob("*"):
        if path.is_file() and path.name != "model.safetensors":
            (to / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            (to / path.relative_to(folder)).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (to / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1, "intermediate_size": 8}))
    kept: dict[str, Any] = {}
    for name, value in load_file(folder / "model.safetensors").items():
        if ".layer." in name and ".layer.0." not in name:
            continue
        if ".intermediate.dense" in name:
            kept[name] = value[:8].copy()
        elif ".layer.0.output.dense.weight" in name:
            kept[name] = value[:, :8].copy()
        else:
            kept[name] = value
    save_file(kept, to / "model.safetensors", metadata={"format": "pt"})
    return to


def play(folder: Path, work: Path, *, device: str, requests: int, cache: Path) -> Report:
    """Starts a server of ``folder`` in ``work``, asks, and ends it."""
    with started(folder, work, device=device, batch=BATCHES, length=LENGTHS, cache=cache) as server:
        report = asyncio.run(_ask(server, Pool(BATCHES, LENGTHS), requests))
        report.code = server.end()
    return report


async def _ask(server: Server, pool: Pool, requests: int) -> Report:
    report = Report(requests)
    known = await _alone(server.port, pool)
    began = time.monotonic()
    numbers = iter(range(requests))
    settled = asyncio.Event()

    async def line() -> None:
        caller = Caller(server.port)
        for number in numbers:
            await _one(caller, pool.question(number), known, report)
            if number >= requests // 10:
                settled.set()
        await caller.close()

    lines: asyncio.Future[Any] = asyncio.gather(*(line() for _ in range(LINES)))
    reached: asyncio.Future[Any] = asyncio.create_task(settled.wait())
    await asyncio.wait({lines, reached}, return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    before = await asyncio.to_thread(server.memory)
    await lines
    report.seconds = time.monotonic() - began
    report.waiting = await _waiting(server)
    after = await asyncio.to_thread(server.memory)
    report.grown = {name: after[name] - before[name] for name in before}
    report.compiles = int(server.metrics("canary_server_compiles_total")["serving"])
    report.restarts = int(server.metrics("canary_server_worker_restarts_total")[""])
    report.buckets = {name: int(count) for name, count in server.metrics("canary_server_batches_total").items()}
    return report


async def _alone(port: int, pool: Pool) -> Vectors:
    """The vectors of the pool's rows, each asked by itself. Raises OSError when any two of them are too close."""
    caller, found = Caller(port), []
    for place in range(len(pool.rows)):
        question = pool.alone(place)
        status, headers, body = await caller.ask(question)
        if status != 200:
            raise OSError(f"row {place} alone: {status} {body[:200]!r}")
        found.append(vectors(question, headers, body)[0])
    await caller.close()
    known = np.stack(found)
    apart = np.abs(known[:, None, :] - known[None, :, :]).max(axis=2) + np.eye(len(found))
    if (closest := float(apart.min())) < 2 * max(TOLERANCE.values()):
        raise OSError(f"two rows of the pool are {closest:g} apart, too little to tell them apart")
    return known


async def _one(caller: Caller, question: Question, known: Vectors, report: Report) -> None:
    """Counts the answer, and whether it may be."""
    report.kinds.update(question.kinds)
    try:
        status, headers, body = await caller.ask(question, leave="gone" in question.kinds)
        report.answers[status] += 1
        if status == 200:
            check(question, headers, body, known)
        elif not _may(status, question):
            raise Wrong(f"status {status}: {body[:200]!r}")
    except (OSError, EOFError, ValueError, KeyError, Wrong) as error:
        await caller.close()
        report.wrong.append(f"request {question.number} {sorted(question.kinds)}: {type(error).__name__}: {error}")


def _may(status: int, question: Question) -> bool:
    """Who set a deadline that cannot be kept may get 504, a copy is shed when the queue is half full, who left got
    nothing.
    """
    return (
        (status == 504 and "hopeless" in question.kinds)
        or (status == 429 and "shadow" in question.kinds)
        or (status == 0 and "gone" in question.kinds)
    )


async def _waiting(server: Server) -> int:
    """Rows in the queue once those who left have had time to be noticed."""
    waiting = -1
    for _ in range(200):
        waiting = int((await asyncio.to_thread(server.metrics, "canary_server_queue_rows"))[""])
        if waiting == 0:
            break
        await asyncio.sleep(0.05)
    return waiting


def main() -> int:
    """0: no problem, or the soak cannot run here and says so."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, tpu, or tpu-emulator")
    parser.add_argument(
        "--one-layer", action="store_true", help="the model's first layer alone: more requests a second"
    )
    options = parser.parse_args()
    folder = weights()
    if folder is None:
        print("skipped: needs the weights (locks/weights.txt)", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        if options.one_layer:
            folder = one_layer(folder, work / "one-layer")
        report = play(folder, work, device=options.device, requests=options.requests, cache=work / "cache")
    print(f"{report.requests} requests on {options.device} in {report.seconds:.0f} s, by status {dict(report.answers)}")
    print(f"of these {dict(report.kinds)}")
    print(f"batches {report.buckets}; compiles after warm-up {report.compiles}")
    print(f"resident memory grew by {', '.join(f'{by >> 20} MiB ({name})' for name, by in report.grown.items())}")
    for problem in report.problems():
        print(f"PROBLEM {problem}")
    return 1 if report.problems() else 0


if __name__ == "__main__":
    sys.exit(main())
