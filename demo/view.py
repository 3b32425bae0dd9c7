"""Puts the scene in front of a person: redrawn in place on a terminal, else a plain line every few seconds."""

from types import TracebackType
from typing import Final, Protocol, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from demo.frame import WIDTH, frame, one_line
from demo.scene import Scene

_LINE_EVERY_S: Final = 3.0
_STYLES: Final = {"title": "bold", "plain": "", "good": "green", "bad": "bold red", "dim": "dim"}


class View(Protocol):
    """Something that shows a scene as often as it is told to."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, scene: Scene) -> None: ...


class LiveView:
    """For a terminal. The last frame stays."""

    def __init__(self, console: Console) -> None:
        # Drawn only when told to: rich's own timer would be a thread and a second source of flicker.
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, scene: Scene) -> None:
        text = Text(no_wrap=True, overflow="crop")
        for line, style in frame(scene):
            # Full-width lines overwrite what a longer one left behind.
            text.append(f"{line:<{WIDTH}}\n", style=_STYLES[style])
        self._live.update(text, refresh=True)


class LineView:
    """For a pipe or a log: a line when the phase or a state changes, and every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last_at = float("-inf")
        self._last_states: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def show(self, scene: Scene) -> None:
        states = [scene.phase, *(body.state for body in scene.health.values())]
        states += [scene.status.state] if scene.status is not None else []
        if states == self._last_states and scene.now - self._last_at < _LINE_EVERY_S:
            return
        self._last_states, self._last_at = states, scene.now
        print(one_line(scene), file=self._stream, flush=True)


def view_for(stream: TextIO) -> View:
    return LiveView(Console(file=stream)) if stream.isatty() else LineView(stream)
