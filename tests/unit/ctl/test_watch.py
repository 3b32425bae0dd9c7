import io
from collections.abc import Callable
from typing import Any

import pytest

from ctl.client import AdminClient
from ctl.config import Target
from ctl.watch import watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def looks(admin: Any, out: io.StringIO, steps: list[Callable[[], Any]], *, raw: bool = False) -> str:
    """One look, then a look after each step; afterwards as if interrupted."""
    left = iter(steps)

    def sleep(_: float) -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    with AdminClient(Target(admin.url, None, "ann")) as client, pytest.raises(KeyboardInterrupt):
        watch(client, out, interval_s=1.0, raw=raw, sleep=sleep)
    return out.getvalue()


def test_lines_only_when_something_changed(admin: Any, sample: Any) -> None:
    """Without a terminal a line is printed when the state changes, not each time."""

    def change() -> None:
        admin.answers["GET", "/v1/status"] = (200, sample["status"](state="baking", weight=10000))

    lines = looks(admin, io.StringIO(), [lambda: None, change]).splitlines()
    assert [line.split()[0] for line in lines] == ["stepping", "baking"]


def test_terminal_is_redrawn_in_place(admin: Any) -> None:
    """On a terminal the view is drawn from the top, never blanked between looks."""
    text = looks(admin, Terminal(), [lambda: None])
    assert text.count("\x1b[H") == 2
    assert text.count("\x1b[2J") == 1


def test_absence_is_shown_and_survived(admin: Any, sample: Any) -> None:
    """A gateway that is away is reported, and watching goes on until it is back."""
    admin.answers["GET", "/v1/status"] = (502, b"proxy error")

    def back() -> None:
        admin.answers["GET", "/v1/status"] = (200, sample["status"]())

    lines = looks(admin, io.StringIO(), [back]).splitlines()
    assert lines[0].startswith("unreachable: ")
    assert lines[1].startswith("stepping")


def test_watching_ends_when_nobody_reads(admin: Any) -> None:
    """A look that cannot be printed is the last one."""

    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    def sleep(_: float) -> None:
        raise AssertionError("it went on")

    for raw in (False, True):
        with AdminClient(Target(admin.url, None, "ann")) as client:
            watch(client, Gone(), interval_s=1.0, raw=raw, sleep=sleep)
    assert len(admin.requests) == 2


def test_json_prints_each_answer(admin: Any) -> None:
    """With --json every look is one line of JSON."""
    assert len(looks(admin, io.StringIO(), [lambda: None], raw=True).splitlines()) == 2
