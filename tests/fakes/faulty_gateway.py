"""``canary-gateway`` as a process with a fault of its own, which a test switches by a file.

FAKE_JUDGE_BROKEN names a file: while it exists, the judge raises when it is given a window. FAKE_CLOCK_BACK names one
that holds the seconds by which the system's wall clock has been set back. Everything else is the real process.
"""

import os
import time
from pathlib import Path
from typing import Any

from gateway.__main__ import main
from gateway.core.verdict import Judge

TESTS = Path(__file__).parents[1]


def environment(*, judge: Path | None = None, clock: Path | None = None) -> dict[str, str]:
    """What a process needs to run this module with these switches."""
    switches = {"FAKE_JUDGE_BROKEN": judge, "FAKE_CLOCK_BACK": clock}
    return {"PYTHONPATH": str(TESTS), **{name: str(path) for name, path in switches.items() if path is not None}}


def break_the_judge(broken: Path) -> None:
    close_window = Judge.close_window

    def close(self: Judge, window: int, *given: Any, **more: Any) -> None:
        if broken.exists():
            raise RuntimeError("broken by the test")
        close_window(self, window, *given, **more)

    Judge.close_window = close  # type: ignore[method-assign]  # the fault to be shown


def set_the_clock_back(seconds: Path) -> None:
    system = time.time

    def now() -> float:
        return system() - (float(seconds.read_text()) if seconds.exists() else 0.0)

    time.time = now


if __name__ == "__main__":
    if judge := os.environ.get("FAKE_JUDGE_BROKEN"):
        break_the_judge(Path(judge))
    if clock := os.environ.get("FAKE_CLOCK_BACK"):
        set_the_clock_back(Path(clock))
    main()
