import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from fakes.arms import snapshot_of
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.channel import DROP_ABOVE, MAX_FRAME, ChannelError, Frames, encode, open_channel
from gateway.core.snapshot import (
    Ack,
    Answer,
    Drain,
    Hello,
    LatencyCounts,
    Pair,
    Report,
    WindowCounts,
    WindowKeys,
    WorkerSetup,
)
from gateway.core.types import Lane, Role, empty_tally


def pair(body: bytes = b"\x00\xff") -> Pair:
    side = Answer(status=200, content_type="application/json", body=body)
    return Pair(
        epoch=1,
        window=7,
        request_id="r",
        path="/p",
        served=Role.CANDIDATE,
        body_hash=b"h",
        baseline=side,
        candidate=side,
        stratum=2,
    )


MESSAGES = [
    WorkerSetup(
        name="w1", host="::1", port=0, expose_timings=True, replay_buffer=1, replay_buffer_total=2, answer_hold=3,
        max_body=4, report_every_s=1.0, access_log=None,
    ),
    snapshot_of(lat_limits_ms=(None, 12.5, None), secret=b"\x00\x01"),
    snapshot_of(candidate=None, strata=(512, 4096)),
    Drain(delay_s=1.0, limit_s=2.5),
    Hello(name="w1", pid=1, port=2),
    Ack(name="w1", version=3, epoch=2, written=9),
    Report(
        name="w1", version=1, epoch=1, at=1.5,
        windows=[WindowCounts(window=3, role=Role.BASELINE, lane=Lane.CLIENT, tally=empty_tally(), stratum=7)],
        latencies=[LatencyCounts(role=Role.CANDIDATE, lane=Lane.COPY, bins=[(1, 2)])],
        open_since=None, breaker=(0.0, 16.0), seconds=[(1, 0, 2, 2)], tripped=True, recent_failovers=4,
        in_flight=(0, 1), connections=(2, 3), copies={"candidate:sent": 1}, compiled={"4x128": 2},
        keys=[WindowKeys(window=3, role=Role.BASELINE, requests=4, hashes=[0, 2**64 - 1], heavy=[(2**64 - 1, 3)])],
    ),
    pair(),
]  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_every_message_survives_the_way(message: Any) -> None:
    """What is decoded equals what was encoded, field by field."""
    assert Frames().feed(encode(message)) == [message]


@given(st.lists(st.integers(1, 400), max_size=30))
def test_frames_may_be_cut_anywhere(cuts: list[int]) -> None:
    """However the bytes arrive, the same messages come out in the same order."""
    stream = b"".join(encode(message) for message in MESSAGES)
    frames, found, at = Frames(), [], 0
    for cut in [*cuts, len(stream)]:
        found += frames.feed(stream[at : at + cut])
        at += cut
    assert found == MESSAGES


def test_a_frame_too_large_is_refused_on_both_sides() -> None:
    """The limit is checked before a byte of it is kept."""
    with pytest.raises(ChannelError, match=f"at most {MAX_FRAME} are allowed"):
        encode(pair(b"x" * MAX_FRAME))
    with pytest.raises(ChannelError, match=f"at most {MAX_FRAME} are allowed"):
        Frames().feed((MAX_FRAME + 1).to_bytes(4, "big"))


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        msgspec.msgpack.encode(["Nope", {}]),
        msgspec.msgpack.encode(["Drain", {"delay_s": "soon", "limit_s": 1.0}]),
        msgspec.msgpack.encode(["Drain", {"delay_s": 1.0}]),
        msgspec.msgpack.encode({"kind": "Drain"}),
    ],
    ids=["no msgpack", "unknown kind", "wrong type", "missing field", "no pair"],
)
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    """One error, whatever is wrong with it."""
    with pytest.raises(ChannelError):
        Frames().feed(len(payload).to_bytes(4, "big") + payload)


@given(st.binary(max_size=60))
def test_any_bytes_are_messages_or_the_one_error(data: bytes) -> None:
    """Nothing else is ever raised."""
    try:
        Frames().feed(data)
    except ChannelError:
        pass


def play(scenario: Callable[[socket.socket, socket.socket], Coroutine[Any, Any, None]]) -> None:
    async def scene() -> None:
        one, other = socket.socketpair()
        try:
            await scenario(one, other)
        finally:
            one.close()
            other.close()

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_messages_go_both_ways_and_an_end_is_told() -> None:
    """Each side hears what the other sends, in order, and once that it is gone."""

    async def scenario(one: socket.socket, other: socket.socket) -> None:
        heard: list[Any] = []
        got, lost = asyncio.Event(), asyncio.Event()

        def take(message: Any) -> None:
            heard.append(message)
            if len(heard) == 2:
                got.set()

        left = await open_channel(one, lambda message: left.send(message), lost.set)
        right = await open_channel(other, take, lambda: None)
        right.send(MESSAGES[4])
        right.send(MESSAGES[5])
        await got.wait()
        assert heard == MESSAGES[4:6]
        right.close()
        await lost.wait()
        left.send(MESSAGES[4])  # nobody is there; nothing happens

    play(scenario)


def test_nothing_is_delivered_before_the_channel_is_at_hand() -> None:
    """A message that was waiting in the socket comes after open_channel has returned."""

    async def scenario(one: socket.socket, other: socket.socket) -> None:
        one.sendall(encode(MESSAGES[3]) * 3)
        heard: list[Any] = []
        got = asyncio.Event()

        def take(message: Any) -> None:
            assert channel is not None
            heard.append(message)
            if len(heard) == 3:
                got.set()

        channel = None
        channel = await open_channel(other, take, lambda: None)
        assert heard == []
        await got.wait()
        channel.close()

    play(scenario)


def test_a_message_that_fails_is_logged_and_the_channel_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """Whether it was waiting in the socket or came later; what follows it is delivered."""

    async def scenario(one: socket.socket, other: socket.socket) -> None:
        heard: list[Any] = []
        got, lost = asyncio.Event(), asyncio.Event()

        def take(message: Any) -> None:
            heard.append(message)
            if len(heard) in (2, 4):
                got.set()
            else:
                raise LookupError("no such worker")

        one.sendall(encode(MESSAGES[3]) * 2)
        channel = await open_channel(other, take, lost.set)
        await got.wait()
        got.clear()
        one.sendall(encode(MESSAGES[3]) * 2)
        await got.wait()
        assert (len(heard), channel.failed, channel.fault, lost.is_set()) == (4, 2, None, False)
        channel.close()
        await lost.wait()

    play(scenario)
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2
    assert "no such worker" in caplog.text


def test_garbage_ends_the_channel() -> None:
    """A side that hears no message does not go on, and keeps the reason."""

    async def scenario(one: socket.socket, other: socket.socket) -> None:
        lost = asyncio.Event()
        channel = await open_channel(other, lambda message: None, lost.set)
        one.sendall(b"\x00\x00\x00\x01\xc1")
        await lost.wait()
        assert isinstance(channel.fault, ChannelError)

    play(scenario)


def test_only_what_may_be_lost_is_dropped() -> None:
    """When the other side does not read, pairs are dropped and counted; reports wait and arrive."""

    async def scenario(one: socket.socket, other: socket.socket) -> None:
        channel = await open_channel(other, lambda message: None, lambda: None)
        big = pair(b"x" * 500_000)
        sent = 0
        while channel.send_or_drop(big):
            sent += 1
        assert sent * 1_000_000 < DROP_ABOVE + 3_000_000
        channel.send(MESSAGES[6])
        assert not channel.send_or_drop(big)
        assert not channel.send_or_drop(pair(b"x" * MAX_FRAME))
        assert channel.dropped == 3

        one.setblocking(False)
        frames, found = Frames(), []
        loop = asyncio.get_running_loop()
        while not found or found[-1] != MESSAGES[6]:
            found += frames.feed(await loop.sock_recv(one, 1 << 20))
        assert len(found) == sent + 1
        await channel.flushed()
        assert not channel.send_or_drop(pair(b"x" * MAX_FRAME))  # by its size alone
        assert channel.send_or_drop(MESSAGES[4])
        channel.close()

    play(scenario)
