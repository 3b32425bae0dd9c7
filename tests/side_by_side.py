"""All test suites, some of them side by side, each a pytest process of its own: what ``make test`` runs.

Tests of real processes mostly wait for seconds in which evidence comes in, so a machine with two cores carries two
suites at once. What is printed reads as if one had run after the other: each suite writes to a file, and the files are
followed one by one. The last lines say it all: what failed, each suite's own summary, and the sum in pytest's form.

Arguments are handed to every pytest. Exit 0 when every suite passed, 130 when interrupted, else 1.
"""

import datetime
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

ROOT: Final = Path(__file__).parents[1]
GRACE_S: Final = 60.0
"""An interrupted suite first stops the servers that it started, and these drain."""

_LOOK_S: Final = 0.2
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_SUMMARY: Final = re.compile(r"(?:=+ )?(no tests ran|\d+ [a-z][a-z0-9, ]*) in [0-9.]+s(?: \([^)]+\))?(?: =+)?")
_RECAP: Final = "short test summary info"
_BAD: Final = frozenset(("failed", "error"))
_ORDER: Final = ("failed", "passed", "skipped", "xfailed", "xpassed", "warning", "error")
_PLURAL: Final = {"warnings": "warning", "errors": "error"}


@dataclass(frozen=True)
class Suite:
    """A name, and what its pytest is told: paths from the root and options."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Ended:
    """How a suite ended. ``counts``: its tests by what pytest calls the outcome; ``failures``: a line for each."""

    name: str
    summary: str
    counts: Counter[str]
    failures: tuple[str, ...]


PATHS: Final = ("tests/unit", "tests/integration", "tests/e2e")
ALONE: Final = "alone and not tool"
BESIDE: Final = "not alone and not tool"
GATEWAY: Final = ("tests/integration/gateway", "tests/integration/gateway_data")
STAGES: Final = (
    # First what may have nothing beside it: it also leaves the demo's compile cache warm for the rest.
    (Suite("alone", ("-m", ALONE, "tests/e2e")),),
    (
        Suite("rest", ("-m", BESIDE, *(f"--ignore={path}" for path in GATEWAY), *PATHS)),
        Suite("gateway", ("-m", BESIDE, *GATEWAY)),
    ),
)
"""What runs side by side, stage by stage. The two suites that share a stage take about as long as each other."""


def main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    # A script's background job ignores SIGINT, and its children would, too: they could not be told to stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run(STAGES, arguments, sys.stdout.buffer)
    except KeyboardInterrupt:  # the second
        return 130


def run(stages: Sequence[Sequence[Suite]], arguments: Sequence[str], out: BinaryIO) -> int:
    """Run the stages one after the other, print, and say with which status to exit.

    KeyboardInterrupt ends the suites under way in their own way and begins no other stage; a second one kills them.
    """
    began, done, interrupted = time.monotonic(), list[Ended](), False
    with tempfile.TemporaryDirectory(prefix="canary-tests-") as folder:
        for stage in stages:
            with started(stage, arguments, Path(folder)) as suites:
                try:
                    ends = [suite.follow(out) for suite in suites]
                except KeyboardInterrupt:
                    interrupted = True
                    interrupt(suites)
                    ends = [suite.follow(out) for suite in suites]
            done += ends
            if interrupted:
                break
    lines = [line for each in done for line in each.failures]
    lines += [f"{each.name}: {each.summary}" for each in done]
    lines += ["interrupted"] if interrupted else []
    out.write("\n".join(["", *lines, sum_line(done, time.monotonic() - began), ""]).encode())
    out.flush()
    return 130 if interrupted else int(any(each.counts.keys() & _BAD for each in done))


class Running:
    """The pytest of one suite. What it prints goes to a file, so that it never waits for a reader."""

    def __init__(self, suite: Suite, arguments: Sequence[str], folder: Path) -> None:
        self.name = suite.name
        path = folder / f"{suite.name}.txt"
        command = [sys.executable, "-m", "pytest", "-q", *suite.arguments, *arguments]
        with path.open("wb") as output:
            output.write(f"\n== {suite.name}: {' '.join(suite.arguments)}\n".encode())
            output.flush()
            # A session of its own: Ctrl-C on the terminal reaches this program alone, which passes it on once.
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._text = path.open("rb")

    def follow(self, out: BinaryIO) -> Ended:
        """Print what the suite prints until it ends. Called again after an interrupt it goes on where that came."""
        while True:
            code = self.process.poll()  # before the text is read: nothing is printed after the end
            if text := self._text.read():
                out.write(text)
                out.flush()
            if code is not None:
                self._text.seek(0)
                return ended(self.name, code, self._text.read().decode(errors="replace"))
            try:
                self.process.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                pass

    def close(self) -> None:
        """Kill what is left of it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._text.close()


@contextmanager
def started(stage: Sequence[Suite], arguments: Sequence[str], folder: Path) -> Iterator[list[Running]]:
    """The suites of a stage under way; none outlives it."""
    with ExitStack() as stack:
        suites = []
        for suite in stage:
            suites.append(Running(suite, arguments, folder))
            stack.callback(suites[-1].close)
        yield suites


def interrupt(suites: Sequence[Running]) -> None:
    """Let each pytest end what its tests have started, for at most GRACE_S; then kill it."""
    for suite in suites:
        suite.process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + GRACE_S
    for suite in suites:
        try:
            suite.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            suite.process.kill()


def ended(name: str, code: int, printed: str) -> Ended:
    """What a suite's output says. One that was cut short, ran nothing or only failed to exit with 0 is an error."""
    lines = _COLOUR.sub("", printed).splitlines()
    recap = max((i for i, line in enumerate(lines) if _RECAP in line), default=len(lines))
    failures = tuple(line for line in lines[recap:] if line.startswith(("FAILED ", "ERROR ")))
    summary = next((found for line in reversed(lines) if (found := _SUMMARY.fullmatch(line))), None)
    counts: Counter[str] = Counter()
    if summary is not None:
        for number, word in re.findall(r"(\d+) ([a-z ]+)", summary[1]):
            counts[_PLURAL.get(word, word)] += int(number)
    del counts["deselected"]  # they run in another suite
    if (code != 0 or not counts) and not counts.keys() & _BAD:
        counts["error"] += 1
    said = f"no summary, exit {code}" if summary is None else summary[0].strip("= ")
    return Ended(name, said, counts, failures)


def sum_line(suites: Sequence[Ended], seconds: float) -> str:
    """The counts of all suites together as pytest would state them. ``seconds``: wall time."""
    counts = sum((each.counts for each in suites), Counter[str]())
    words = sorted(counts, key=lambda word: _ORDER.index(word) if word in _ORDER else len(_ORDER))
    plurals = {one: many for many, one in _PLURAL.items()}
    told = [f"{counts[word]} {plurals.get(word, word) if counts[word] > 1 else word}" for word in words]
    long = f" ({datetime.timedelta(seconds=int(seconds))})" if seconds >= 60 else ""
    return f"{', '.join(told)} in {seconds:.2f}s{long}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
