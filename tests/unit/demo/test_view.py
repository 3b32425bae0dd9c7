import io
from typing import Any

from rich.console import Console

from demo.frame import WIDTH
from demo.scenarios import SCENARIOS
from demo.scene import Scene
from demo.view import LineView, LiveView, view_for


def test_live_view_redraws_in_place(make: Any) -> None:
    """On a terminal each frame overwrites the last one, without blanking the screen."""
    stream = io.StringIO()
    console = Console(file=stream, width=100, height=30, force_terminal=True, color_system=None)
    scene = Scene(SCENARIOS["good"], status=make.status())
    with LiveView(console) as view:
        for now in (1.0, 2.0):
            scene.now = now
            view.show(scene)
    drawn = stream.getvalue()
    assert "0:01" in drawn
    assert "0:02" in drawn
    assert "\x1b[2J" not in drawn
    assert "\x1b[1A" in drawn  # the cursor goes up to the first line again


def test_live_view_is_readable_without_colour(make: Any) -> None:
    """Without colours nothing is lost: the frame's text is all there, in lines of at most 100 columns."""
    stream = io.StringIO()
    console = Console(file=stream, width=100, height=30, color_system=None)
    with LiveView(console) as view:
        view.show(Scene(SCENARIOS["good"], status=make.status()))
    lines = stream.getvalue().splitlines()
    assert max(len(line.rstrip("\r")) for line in lines) <= WIDTH
    assert any("NOT READY" in line for line in lines)


def test_line_view_speaks_rarely(make: Any) -> None:
    """In a log a line comes every few seconds, and at once when the phase or a state changes."""
    stream = io.StringIO()
    scene = Scene(SCENARIOS["good"], phase="warm-up")
    with LineView(stream) as view:
        for now in (0.0, 0.5, 1.0, 3.5):
            scene.now = now
            view.show(scene)
        scene.now, scene.health["baseline"] = 4.5, make.health(state="warming")
        view.show(scene)
        scene.now, scene.health["baseline"] = 4.6, make.health()
        view.show(scene)
        scene.now, scene.phase = 4.7, "canary"
        view.show(scene)
        scene.now, scene.status = 4.8, make.status(state="baking")
        view.show(scene)
    assert [line.split("  ")[:2] for line in stream.getvalue().splitlines()] == [
        ["warm-up", "0 s"],
        ["warm-up", "4 s"],
        ["warm-up", "4 s"],
        ["warm-up", "5 s"],
        ["canary", "5 s"],
        ["canary", "5 s"],
    ]


def test_pipe_gets_lines() -> None:
    """A stream that is no terminal never gets control characters."""
    assert isinstance(view_for(io.StringIO()), LineView)
