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
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from demo.failures import DemoFailed

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_POLL_S: Final = 0.02
_TAIL_LINES: Final = 12


class ChildDied(DemoFailed):
    """A process ended that should not have. The text holds its last log lines."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        super().__init__(f"{name} ended by itself ({how}); the end of {log}:\n{tail(log)}")
        self.name = name
        self.code = code


class Crew:
    """All processes of one demo. ``logs`` gets one file each. No method but ``stop_all`` waits."""

    def __init__(self, logs: Path, *, folder: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._folder = folder
        self._environment = dict(environment)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._may_end: set[str] = set()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
        may_end: bool = False,
    ) -> int:
        """Start ``command``; its pid. ``environment`` is added to the crew's. Raises OSError.

        ``output`` gets what it prints on stdout, else its log does. Most processes may not end by themselves.
        """
        parent = os.getpid()
        self._logs.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            log = files.enter_context(self.log(name).open("wb"))
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=files.enter_context(output.open("wb")) if output is not None else log,
                stderr=log,
                cwd=self._folder,
                env={**self._environment, **(environment or {})},
                start_new_session=True,
                preexec_fn=lambda: _die_with(parent),  # no other thread runs in the demo, so this is safe
            )
        self._children[name] = child
        if may_end:
            self._may_end.add(name)
        return child.pid

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def check(self) -> None:
        """Raises ChildDied for the first process that has ended and may not."""
        for name, child in self._children.items():
            code = child.poll()
            if code is not None and name not in self._may_end:
                raise ChildDied(name, code, self.log(name))

    def ask_to_end(self, name: str) -> None:
        """SIGTERM; from now on the process may end."""
        self._may_end.add(name)
        self._children[name].terminate()

    def ended(self, name: str) -> int | None:
        """The exit code (negative: the signal), once the process has ended and its group was killed; else None."""
        child = self._children[name]
        code = child.poll()
        if code is not None:
            _kill_group(child.pid)
            self._may_end.discard(name)
            del self._children[name]
        return code

    def stop_all(self, *, grace_s: float) -> dict[str, int]:
        """SIGTERM to all, newest first; after at most ``grace_s`` SIGKILL to their groups; exit codes by name."""
        children, self._children = dict(reversed(self._children.items())), {}
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
