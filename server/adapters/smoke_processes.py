"""Runs one process of a smoke after the other: a fresh interpreter each, so no mode leaves anything to the next."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from server.core.smoke import Part
from server.ports.smoke import Job

PROCESS_S: Final = 1800.0
_WARNING: Final = re.compile(rb"<TorchTpu/[^\n]{1,400}")

Result = TypeVar("Result")


def run_process(job: Job, kind: type[Result], folder: Path) -> Part[Result]:
    """The process's result, or why it left none; the warnings that Python or torch_tpu's own code printed with it."""
    file, log = folder / f"{job.mode}.job.json", folder / f"{job.mode}.log"
    file.write_bytes(msgspec.json.encode(job))
    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "server.adapters.worker.smoke", str(file)]
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, timeout=PROCESS_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return Part(None, f"the process was ended after {PROCESS_S:.0f} s; its last words are in {log}")
    try:
        part = msgspec.json.decode(Path(job.result).read_bytes(), type=Part[kind])  # type: ignore[valid-type]
    except (OSError, msgspec.MsgspecError):
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Part(None, f"the process left no result and ended with {end}; its last words are in {log}")
    return Part(part.result, part.error, tuple(_distinct([*part.warnings, *_printed(log)])))


def _printed(log: Path) -> Iterator[str]:
    for found in _WARNING.findall(log.read_bytes()):
        yield found.decode("utf-8", "replace")


def _distinct(warnings: list[str]) -> Iterator[str]:
    """Each text once; a printed line may be cut where the collected one goes on."""
    seen: list[str] = []
    for text in warnings:
        first = text.strip().splitlines()[0] if text.strip() else ""
        if first and not any(first.startswith(each[:80]) for each in seen):
            seen.append(first)
            yield text.strip()
