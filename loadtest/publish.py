"""Where the statistics of a run go: ``live.json`` every second, ``stats.json`` at the end, a line for people."""

import os
from pathlib import Path
from typing import TextIO

import msgspec

from loadtest.tally import RunStats


class Publisher:
    """Writes into ``out`` (created when absent; None: no files) and to ``stream``."""

    def __init__(self, out: Path | None, stream: TextIO) -> None:
        self._out = out
        self._stream = stream
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)

    def __call__(self, stats: RunStats) -> None:
        if self._out is not None:
            write_atomically(self._out / "live.json", msgspec.json.encode(stats))
            if stats.state == "done":
                write_atomically(self._out / "stats.json", msgspec.json.format(msgspec.json.encode(stats)))
        print(one_line(stats), file=self._stream, flush=True)


def write_atomically(path: Path, raw: bytes) -> None:
    """A reader sees the old file or the new one, never half of it."""
    draft = path.with_suffix(".tmp")
    draft.write_bytes(raw)
    os.replace(draft, path)


def one_line(stats: RunStats) -> str:
    """The state of the run in one line of text."""
    arms = "  ".join(
        f"{name} {group.answered} (p95 {_ms(group.latency.p95)} ms)" for name, group in stats.by_arm.items()
    )
    return (
        f"{stats.state:<9} {stats.elapsed_s:6.0f} s  sent {stats.sent} of {stats.planned}  ok {stats.answered}"
        f"  failed {stats.failures}  late {stats.late}  wrong {stats.wrong_answers}/{stats.compared}  {arms}"
    ).rstrip()


def report(stats: RunStats) -> str:
    """The end of the run, for people."""
    lines = [
        f"planned {stats.planned}, sent {stats.sent} ({stats.sent_ratio:.1%}), answered {stats.answered},"
        f" failures {stats.failures}, unsent {stats.unsent}",
        f"late starts {stats.late} (worst {stats.max_late_ms:.0f} ms), failovers {stats.failovers},"
        f" wrong answers {stats.wrong_answers} of {stats.compared} compared",
        f"{'':<12}{'answers':>9}{'p50 ms':>10}{'p95 ms':>10}{'p99 ms':>10}{'max ms':>10}",
    ]
    for name, latency in (
        ("all", stats.latency),
        *((f"arm {name}", group.latency) for name, group in stats.by_arm.items()),
        *((name, group.latency) for name, group in stats.by_bucket.items()),
    ):
        figures = "".join(f"{_ms(value):>10}" for value in (latency.p50, latency.p95, latency.p99, latency.max))
        lines.append(f"{name:<12}{latency.count:>9}{figures}")
    if stats.switched_after_s is not None:
        lines.append(f"second mix from {stats.switched_after_s:.1f} s on")
    lines.extend(f"failure {code}: {count}" for code, count in stats.failures_by_code.items())
    if stats.last_failure:
        lines.append(f"last failure: {stats.last_failure}")
    return "\n".join(lines)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
