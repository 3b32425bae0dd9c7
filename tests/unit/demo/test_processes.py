import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo.processes import ChildDied, Crew, tail

# A parent and its child, both deaf to SIGTERM; the child's pid goes to a file once both are.
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    time.sleep(600)
with open(sys.argv[1] + ".draft", "w") as f:
    f.write(str(child))
os.rename(sys.argv[1] + ".draft", sys.argv[1])
time.sleep(600)
"""


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path / "logs", folder=tmp_path, environment=os.environ)
    yield made
    made.stop_all(grace_s=0.0)


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def gone(pid: int) -> bool:
    """No such process, or only its zombie is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_output_goes_to_a_log(crew: Crew, tmp_path: Path) -> None:
    """Both streams of a child end up in its log file, and extra variables reach it alone."""
    code = "import os, sys; print(os.environ['X']); print('err', file=sys.stderr)"
    crew.start("talker", [sys.executable, "-c", code], environment={"X": "out"})
    log = tmp_path / "logs" / "talker.log"
    assert until(lambda: log.read_text().split() == ["out", "err"])
    assert "X" not in os.environ


def test_answer_of_an_errand(crew: Crew, tmp_path: Path) -> None:
    """What a process was sent for is kept apart from its complaints, and its end is no accident."""
    code = "import sys; print('answer'); print('by the way', file=sys.stderr); raise SystemExit(4)"
    pid = crew.start("errand", [sys.executable, "-c", code], output=tmp_path / "answer", may_end=True)
    assert until(lambda: gone(pid))
    crew.check()
    assert crew.ended("errand") == 4
    assert (tmp_path / "answer").read_text() == "answer\n"
    assert crew.log("errand").read_text() == "by the way\n"


def test_unexpected_end_is_told_with_the_log(crew: Crew) -> None:
    """A child that ends by itself is reported with its code and last lines."""
    pid = crew.start("worker", [sys.executable, "-c", "print('no such device'); raise SystemExit(3)"])
    assert until(lambda: gone(pid))
    with pytest.raises(ChildDied, match=r"worker ended by itself \(code 3\)(.|\n)*no such device"):
        crew.check()


def test_death_by_signal_names_it(crew: Crew) -> None:
    """A child that was killed is reported with the signal's name."""
    pid = crew.start("worker", [sys.executable, "-c", "import time; time.sleep(600)"])
    crew.check()
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: gone(pid))
    with pytest.raises(ChildDied, match="signal SIGKILL"):
        crew.check()


def test_asked_child_ends_in_its_own_time(crew: Crew, tmp_path: Path) -> None:
    """A child that is asked to end is not waited for; it ends with its own exit code, which is no accident."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "open('ready', 'w').close()\n"
        "time.sleep(600)"
    )
    crew.start("polite", [sys.executable, "-c", code])
    assert until((tmp_path / "ready").exists)
    assert crew.ended("polite") is None
    crew.ask_to_end("polite")
    assert until(lambda: crew.check() is None and (code := crew.ended("polite")) is not None and code == 7)
    assert crew.stop_all(grace_s=0.0) == {}


def test_stop_ends_the_deaf_and_their_children(crew: Crew, tmp_path: Path) -> None:
    """A family that ignores SIGTERM is killed as a whole."""
    crew.start("deaf", [sys.executable, "-c", DEAF, str(tmp_path / "pid")])
    assert until((tmp_path / "pid").exists)
    grandchild = int((tmp_path / "pid").read_text())
    assert crew.stop_all(grace_s=0.2) == {"deaf": -signal.SIGKILL}
    assert until(lambda: gone(grandchild))


def test_children_die_with_the_demo(tmp_path: Path) -> None:
    """When the demo is killed outright, the kernel ends what it had started."""
    code = (
        "import os, sys, time; from pathlib import Path; from demo.processes import Crew\n"
        "crew = Crew(Path(sys.argv[1]), folder=Path('.'), environment=os.environ)\n"
        "print(crew.start('x', [sys.executable, '-c', 'import time; time.sleep(600)']), flush=True)\n"
        "time.sleep(600)"
    )
    demo = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    child = int(demo.stdout.readline())
    assert not gone(child)
    demo.kill()
    demo.communicate(timeout=20)
    assert until(lambda: gone(child))


def test_tail(tmp_path: Path) -> None:
    """Of a log the last lines are told; an empty or absent one says so."""
    (tmp_path / "a").write_text("\n".join(str(n) for n in range(100)))
    assert tail(tmp_path / "a", 2) == "    98\n    99"
    (tmp_path / "b").write_text("")
    assert tail(tmp_path / "b") == "    (empty)"
    assert "No such file" in tail(tmp_path / "c")
