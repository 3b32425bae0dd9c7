"""Child processes that cannot outlive the demo.

Each has a session of its own (a Ctrl-C on the terminal reaches the demo alone), is killed by the kernel if the demo
dies, and is stopped with SIGTERM, then SIGKILL to its whole group.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_POLL_S: Final = 0.02
_TAIL_LINES: Final = 12


class ChildDied(Exception):
    """A process ended that should not have. The text holds its last log lines."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        super().__init__(f"{name} ended by itself ({how}); the end of {log}:\n{tail(log)}")
        self.name = name
        self.code = code


class Crew:
    """All processes of one demo. ``logs`` gets one file each."""

    def __init__(self, logs: Path, *, folder: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._folder = folder
        self._environment = dict(environment)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str], **environment: str) -> int:
        """Start ``command``; its pid."""
        parent = os.getpid()
        with (self._logs / f"{name}.log").open("wb") as log:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={**self._environment, **environment},
                start_new_session=True,
                preexec_fn=lambda: _die_with(parent),  # no other thread runs in the demo, so this is safe
            )
        self._children[name] = child
        return child.pid

    def check(self) -> None:
        """Raises ChildDied for the first process that has ended."""
        for name, child in self._children.items():
            code = child.poll()
            if code is not None:
                raise ChildDied(name, code, self._logs / f"{name}.log")

    def stop(self, name: str, *, grace_s: float) -> int:
        """SIGTERM, at most ``grace_s`` to end, then SIGKILL to the group; the exit code (negative: the signal)."""
        return self._stop({name: self._children.pop(name)}, grace_s=grace_s)[name]

    def stop_all(self, *, grace_s: float) -> dict[str, int]:
        """Stop whatever still runs, newest first; exit codes by name."""
        children, self._children = dict(reversed(self._children.items())), {}
        return self._stop(children, grace_s=grace_s)

    def _stop(self, children: dict[str, subprocess.Popen[bytes]], *, grace_s: float) -> dict[str, int]:
        deadline = time.monotonic() + grace_s
        for child in children.values():
            child.terminate()
        for child in children.values():
            while child.poll() is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        for child in children.values():
            _kill_group(child.pid)
        return {name: child.wait() for name, child in children.items()}


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, indented."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as unreadable:
        return f"    ({unreadable.strerror})"
    return "\n".join(f"    {line[:400]}" for line in text.splitlines()[-lines:]) or "    (empty)"


def _kill_group(pid: int) -> None:
    """Kill what is left of the session that ``pid`` led, the leader included."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all gone already
    except PermissionError:
        pass  # only zombies are left in it


def _die_with(parent: int) -> None:
    """Runs in the child before its program: SIGKILL to it when the demo ends, however that happens."""
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(127)
