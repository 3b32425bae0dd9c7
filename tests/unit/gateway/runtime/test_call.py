import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.runtime.call import STREAM_HIGH, AnswerStream, StreamBroken


class Tap:
    """A leg of which only the flow matters."""

    def __init__(self) -> None:
        self.paused = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def cancel(self) -> None: ...

    def discard(self) -> None: ...

    async def feed(self, data: bytes, *, last: bool) -> bool:
        return False


def play(scenario: Callable[[AnswerStream, Tap], Awaitable[None]]) -> None:
    async def scene() -> None:
        tap = Tap()
        await scenario(AnswerStream(tap), tap)

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_pieces_come_in_order_and_end() -> None:
    """What was pushed is read whole, then None."""

    async def scenario(stream: AnswerStream, tap: Tap) -> None:
        for piece in (b"a", b"b", b"c"):
            stream.push(piece)
        stream.end()
        got = b""
        while (data := await stream.read()) is not None:
            got += data
        assert got == b"abc"

    play(scenario)


def test_a_reader_waits_for_news() -> None:
    """Reading an empty stream returns when something is pushed."""

    async def scenario(stream: AnswerStream, tap: Tap) -> None:
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0)
        assert not reading.done()
        stream.push(b"late")
        assert await reading == b"late"

    play(scenario)


def test_a_break_comes_after_what_arrived() -> None:
    """The pieces before a break are not lost; then the reader is told."""

    async def scenario(stream: AnswerStream, tap: Tap) -> None:
        stream.push(b"half")
        stream.break_off()
        assert await stream.read() == b"half"
        with pytest.raises(StreamBroken):
            await stream.read()

    play(scenario)


def test_a_full_buffer_pauses_the_arm_until_it_is_read() -> None:
    """More than the high mark waiting makes the arm wait."""

    async def scenario(stream: AnswerStream, tap: Tap) -> None:
        stream.push(b"x" * STREAM_HIGH)
        assert not tap.paused
        stream.push(b"x")
        assert tap.paused
        assert len(await stream.read() or b"") == STREAM_HIGH + 1
        assert not tap.paused

    play(scenario)


def test_a_stream_says_when_it_makes_the_arm_wait_and_when_no_more() -> None:
    """For each piece that comes all the same, and once when the reader has read."""

    async def scene() -> None:
        told: list[bool] = []
        stream = AnswerStream(Tap(), told.append)
        stream.push(b"x")
        assert await stream.read()
        assert told == []
        stream.push(b"x" * (STREAM_HIGH + 1))
        stream.push(b"x")
        stream.end()
        assert await stream.read()
        assert await stream.read() is None
        assert told == [False, False, True]

    asyncio.run(scene())
