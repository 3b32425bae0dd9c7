"""``make test`` runs every test once, reads like one pytest, and passes only when every suite does."""

import io
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes.gateway_process import wait_until
from side_by_side import ALONE, BESIDE, ROOT, STAGES, Suite, ended, run, sum_line

TESTS = ROOT / "tests"
MEETS = """
import pathlib, time
def test_meets_the_other():
    here = pathlib.Path(__file__).parent
    (here / "{mine}").touch()
    end = time.monotonic() + 30
    while not (here / "{other}").exists():
        assert time.monotonic() < end, "nothing runs beside this"
        time.sleep(0.01)
"""
WAITS = """
import pathlib, time, pytest
here = pathlib.Path(__file__)
@pytest.fixture
def server():
    yield
    here.with_suffix(".stopped").touch()
def test_passes(): pass
def test_waits(server):
    here.with_suffix(".began").touch()
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _bare_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suites of these tests start without plug-ins, which takes a fifth of the time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def suites(folder: Path, **texts: str) -> tuple[Suite, ...]:
    """A suite of one file for each text, apart from this repository's own configuration."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra -p no:cacheprovider\n")
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text)
    return tuple(Suite(name, ("-c", str(folder / "pytest.ini"), str(folder / f"test_{name}.py"))) for name in texts)


def printed(*stages: Sequence[Suite]) -> tuple[int, str]:
    out = io.BytesIO()
    return run(stages, [], out), out.getvalue().decode()


def selects(suite: Suite, file: Path) -> bool:
    """Whether the paths of a suite hold a file."""
    ignored = [ROOT / word.partition("=")[2] for word in suite.arguments if word.startswith("--ignore=")]
    paths = [ROOT / word for word in suite.arguments if word.startswith("tests/")]
    return any(file.is_relative_to(path) for path in paths) and not any(file.is_relative_to(path) for path in ignored)


def test_every_test_is_in_one_suite() -> None:
    """By marker and path; but for those that need Debian's tools, which `make test-tools` runs."""
    files = [file for file in TESTS.rglob("test_*.py") if not file.is_relative_to(TESTS / "tools")]
    assert files
    (alone,), beside = STAGES
    assert [suite.arguments[:2] for suite in (alone, *beside)] == [("-m", ALONE), ("-m", BESIDE), ("-m", BESIDE)]
    assert {file: sum(selects(suite, file) for suite in beside) for file in files} == dict.fromkeys(files, 1)
    marked = [file for file in files if "pytest.mark." + "alone" in file.read_text()]
    assert marked
    assert [file for file in marked if not selects(alone, file)] == []


def test_suites_of_a_stage_run_at_once_and_read_one_after_the_other(tmp_path: Path) -> None:
    """Stage by stage, skips with their reasons, and at the end each summary and the sum of all."""
    skips = "import pytest\ndef test_skips(): pytest.skip('no such device')\n"
    one, two, last = suites(
        tmp_path, one=MEETS.format(mine="a", other="b"), two=MEETS.format(mine="b", other="a") + skips, last=skips
    )
    code, text = printed((one, two), (last,))
    assert code == 0, text
    order = [text.index(f"== {name}: ") for name in ("one", "two", "last")]
    assert order == sorted(order)
    assert text.count("no such device") == 2
    *_, first, second, third, total = text.splitlines()
    assert first.startswith("one: 1 passed in ")
    assert second.startswith("two: 1 passed, 1 skipped in ")
    assert third.startswith("last: 1 skipped in ")
    assert total.startswith("2 passed, 2 skipped in ")


@pytest.mark.parametrize(
    ("bad", "counted", "told"),
    [
        ("def test_fails(): assert False, 'so it is'\n", "1 failed, 2 passed in ", "FAILED "),
        ("import nothing_of_that_name\n", "2 passed, 1 error in ", "ERROR "),
        ("", "2 passed, 1 error in ", "bad: no tests ran in "),
        ("import os\ndef test_dies(): os._exit(0)\n", "2 passed, 1 error in ", "bad: no summary, exit 0"),
    ],
    ids=["failure", "error", "nothing", "death"],
)
def test_one_bad_suite_is_enough(tmp_path: Path, bad: str, counted: str, told: str) -> None:
    """Whichever it is; the others run to their end all the same, and the last lines name what failed."""
    good = "def test_passes(): pass\n"
    first, middle, other = suites(tmp_path, first=good, bad=bad, other=good)
    code, text = printed((first, middle), (other,))
    assert code == 1, text
    *_, total = text.splitlines()
    assert total.startswith(counted)
    assert any(line.startswith(told) for line in text.splitlines()[-5:-1]), text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_reaches_every_suite_once(tmp_path: Path, number: signal.Signals) -> None:
    """Each stops what it has started and says how far it came; no other stage begins; exit 130.

    Also where SIGINT was ignored at the start, as in a background job of a script.
    """
    for_both = suites(tmp_path, one=WAITS, two=WAITS, last=WAITS)
    code = (
        "import signal, side_by_side as s; from side_by_side import Suite; "
        "signal.signal(signal.SIGINT, signal.SIG_IGN); "
        f"s.STAGES = {[for_both[:2], for_both[2:]]!r}; raise SystemExit(s.main([]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=TESTS, stdout=subprocess.PIPE, text=True)
    try:
        for name in ("one", "two"):
            wait_until((tmp_path / f"test_{name}.began").exists, f"{name} has begun")
        process.send_signal(number)
        text, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, text
    assert [(tmp_path / f"test_{name}.stopped").exists() for name in ("one", "two", "last")] == [True, True, False]
    assert not (tmp_path / "test_last.began").exists()
    *_, one, two, interrupted, total = text.splitlines()
    assert one.startswith("one: 1 passed in ")
    assert two.startswith("two: 1 passed in ")
    assert interrupted == "interrupted"
    assert total.startswith("2 passed, 2 errors in ")


def test_a_summary_is_read_in_every_form() -> None:
    """With and without rules and colours around it; log lines that look like failures are none."""
    text = "ERROR    server:main.py:1 x\n== short test summary info ==\nSKIPPED [1] x\nFAILED a.py::test - no\n"
    end = ended("x", 1, f"{text}\x1b[31m= 1 failed, 2 passed, 1 warning in 61.00s (0:01:01) =\x1b[0m\n")
    assert end.summary == "1 failed, 2 passed, 1 warning in 61.00s (0:01:01)"
    assert end.failures == ("FAILED a.py::test - no",)
    again = ended("y", 0, "5000 passed, 8 deselected, 2 warnings in 5.00s\n")
    assert sum_line([again, end], 3725.04) == "1 failed, 5002 passed, 3 warnings in 3725.04s (1:02:05)"


def test_a_suite_that_was_cut_short_is_an_error_however_well_it_went() -> None:
    """An exit status of its own, a signal's, or no word at the end."""
    assert ended("x", 2, "3 passed in 1.00s\n").counts == {"passed": 3, "error": 1}
    assert ended("x", 2, "3 passed, 1 failed in 1.00s\n").counts == {"passed": 3, "failed": 1}
    assert ended("x", 0, "....").counts == {"error": 1}
    assert ended("x", 5, "9 deselected in 1.00s\n").counts == {"error": 1}
    assert ended("x", -9, "....").counts == {"error": 1}
