"""Pools against a real server on a free port; time-outs run on a clock in the test's hand."""

import asyncio
import contextlib
import errno
import os
import resource
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from fakes.arms import HandClock, arm_of

from gateway.adapters.upstream import Pool, Sweeper
from gateway.core.classify import Loss
from gateway.core.leg import Head, Outgoing, Patience
from gateway.core.types import Role

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
PATIENCE = Patience(10.0, 30.0)


class Caller:
    """An owner that keeps what it is told."""

    def __init__(self, *, allowed: bool = True) -> None:
        self.allowed = allowed
        self.told: list[str] = []
        self.body = b""
        self.done = asyncio.Event()
        self.written = asyncio.Event()
        self.got_head = asyncio.Event()

    def may_write(self) -> bool:
        return self.allowed

    def on_written(self) -> None:
        self.told.append("written")
        self.written.set()

    def on_head(self, head: Head) -> None:
        self.told.append(f"head {head.status}")
        self.got_head.set()

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_complete(self) -> None:
        self.told.append("complete")
        self.done.set()

    def on_lost(self, loss: Loss) -> None:
        self.told.append(str(loss))
        self.done.set()


class Scene:
    """A server whose answers are raw bytes, and a pool to it."""

    def __init__(self, behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self.behave = behave
        self.clock = HandClock()
        self.accepted = 0
        self.short: list[OSError] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"content-length: 4" in head:
                    await reader.readexactly(4)
                await self.behave(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()

    def make(self, **changes: Any) -> Pool:
        loop = asyncio.get_running_loop()
        self.sweeper = Sweeper(loop, self.clock)
        arm = arm_of(Role.CANDIDATE, port=self.port, **changes)
        self.pool = Pool(arm, self.sweeper, loop, self.short.append)
        return self.pool

    def send(self, caller: Caller | None = None, patience: Patience = PATIENCE, **changes: Any) -> tuple[Caller, Any]:
        caller = caller or Caller()
        values: dict[str, Any] = {"method": "POST", "target": b"/", "header_block": b"", "body": b"body", "length": 4}
        leg = self.pool.send(Outgoing(**{**values, "epoch": 1, **changes}), patience, caller)
        return caller, leg

    def sweep(self, seconds: float) -> None:
        """Let time pass and look what is overdue."""
        self.clock.step(seconds)
        self.pool.sweep(self.clock.monotonic())


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process can open nothing more, as under a limit that clients have used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def turns(condition: Callable[[], bool]) -> None:
    """Let the loop turn until ``condition`` holds; ``play`` bounds the wait."""
    while not condition():  # noqa: ASYNC110  # a pool tells its owners and nobody else, so there is no event
        await asyncio.sleep(0)


def answers(raw: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    return behave


def play(
    scene: Scene,
    scenario: Callable[[Scene], Coroutine[Any, Any, None]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    async def run() -> None:
        server = await asyncio.start_server(scene.accept, "127.0.0.1", 0)
        scene.port = server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # set for the scene alone
        try:
            await scenario(scene)
        finally:
            scene.sweeper.stop()
            scene.pool.retire()
            server.close()
            for writer in scene.writers:
                writer.transport.abort()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(run(), 20))


def test_one_connection_is_used_again() -> None:
    """A whole answer leaves the connection for the next request."""

    async def scenario(scene: Scene) -> None:
        scene.make()
        for _ in range(3):
            caller, _ = scene.send()
            await caller.done.wait()
            assert (caller.told, caller.body) == (["written", "head 200", "complete"], b"{}")
        assert (scene.accepted, scene.pool.connections, scene.pool.in_flight) == (1, 1, 0)

    play(Scene(answers(OK)), scenario)


def test_requests_beyond_the_connections_wait_their_turn() -> None:
    """Never more connections than allowed; those who wait are served first come, first served."""

    async def scenario(scene: Scene) -> None:
        scene.make(max_connections=1)
        order: list[int] = []
        callers = [scene.send()[0] for _ in range(4)]
        for i, caller in enumerate(callers):
            await caller.done.wait()
            order.append(i)
            assert all(not later.written.is_set() or later.done.is_set() for later in callers[i + 2 :])
        assert scene.accepted == 1

    play(Scene(answers(OK)), scenario)


def test_what_may_not_be_written_any_more_is_stale() -> None:
    """Asked at the moment of writing: while connecting, while waiting, and on a kept connection."""

    async def scenario(scene: Scene) -> None:
        scene.make(max_connections=1)
        connecting, _ = scene.send()
        waiting, _ = scene.send()
        connecting.allowed = waiting.allowed = False
        kept, _ = scene.send()
        await kept.done.wait()
        late, _ = scene.send(Caller(allowed=False))
        assert late.told == []
        await late.done.wait()
        assert connecting.told == waiting.told == late.told == ["stale"]
        assert kept.told == ["written", "head 200", "complete"]
        assert scene.pool.in_flight == 0

    play(Scene(answers(OK)), scenario)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_shortage_of_our_own_is_not_the_arms(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """No file descriptor: the leg is lost as local and a copy dropped, once told each; afterwards all is well."""

    async def scenario(scene: Scene) -> None:
        scene.make()
        with no_descriptor_left():
            live, _ = scene.send()
            copy, _ = scene.send(shadow=True)
            await live.done.wait()
            await copy.done.wait()
        assert (live.told, copy.told) == (["local"], ["stale"])
        assert [error.errno for error in scene.short] == [errno.EMFILE, errno.EMFILE]
        assert (scene.pool.connections, scene.pool.in_flight) == (0, 0)
        again, _ = scene.send()
        await again.done.wait()
        assert again.told == ["written", "head 200", "complete"]

    play(Scene(answers(OK)), scenario, new_loop)


def test_a_host_name_that_is_none_is_refused_at_once() -> None:
    """Not left to the time-out, though what is raised is no OSError."""

    async def scenario(scene: Scene) -> None:
        scene.make(host="a" * 70 + ".example")
        caller, _ = scene.send()
        await caller.done.wait()
        assert (caller.told, scene.short) == (["refused"], [])
        assert (scene.pool.connections, scene.pool.in_flight) == (0, 0)

    play(Scene(answers(OK)), scenario)


def test_a_recheck_ends_what_waits_in_vain() -> None:
    """Without waiting for a connection to come free."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    async def scenario(scene: Scene) -> None:
        scene.make(max_connections=1)
        busy, _ = scene.send()
        await busy.written.wait()
        waiting = [scene.send()[0] for _ in range(3)]
        for caller in waiting:
            caller.allowed = False
        waiting[1].allowed = True
        scene.pool.recheck()
        await waiting[0].done.wait()
        await waiting[2].done.wait()
        assert waiting[0].told == waiting[2].told == ["stale"]
        assert waiting[1].told == []
        assert busy.told == ["written"]

    play(Scene(hang), scenario)


@pytest.mark.parametrize(
    ("steps", "loss"),
    [((9.0, 1.1), Loss.FIRST_BYTE_TIMEOUT), ((31.0,), Loss.FIRST_BYTE_TIMEOUT)],
)
def test_no_first_byte_in_time(steps: tuple[float, ...], loss: Loss) -> None:
    """The leg ends when its time is up and not before, and its connection with it."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    async def scenario(scene: Scene) -> None:
        scene.make()
        caller, _ = scene.send()
        await caller.written.wait()
        for step in steps:
            assert caller.told == ["written"]
            scene.sweep(step)
        assert caller.told == ["written", str(loss)]
        assert scene.pool.in_flight == 0

    play(Scene(hang), scenario)


def test_an_answer_that_stops_or_takes_too_long() -> None:
    """Idle between two pieces, or beyond the whole time however it drips."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")

    async def scenario(scene: Scene) -> None:
        scene.make(idle_s=5.0)
        caller, _ = scene.send()
        await caller.got_head.wait()
        scene.sweep(4.9)
        assert not caller.done.is_set()
        scene.sweep(0.2)
        assert caller.told[-1] == str(Loss.IDLE_TIMEOUT)
        dripping, _ = scene.send()
        await dripping.got_head.wait()
        for _ in range(7):
            size = len(dripping.body)
            scene.writers[-1].write(b"y")
            await turns(lambda size=size: len(dripping.body) > size)
            scene.sweep(4.5)
        assert dripping.told[-1] == str(Loss.TOTAL_TIMEOUT)

    play(Scene(half), scenario)


def test_a_paused_answer_is_not_idle() -> None:
    """While the client is slow the arm is not to blame; its time goes on when reading does."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")

    async def scenario(scene: Scene) -> None:
        scene.make(idle_s=5.0)
        caller, leg = scene.send()
        await caller.got_head.wait()
        leg.pause()
        scene.sweep(20.0)
        assert not caller.done.is_set()
        leg.resume()
        scene.sweep(4.9)
        assert not caller.done.is_set()
        scene.sweep(0.2)
        assert caller.told[-1] == str(Loss.IDLE_TIMEOUT)

    play(Scene(half), scenario)


def test_an_arm_that_is_not_there() -> None:
    """A refused connection is told after send has returned."""

    async def scenario(scene: Scene) -> None:
        scene.make()
        scene.pool.arm = arm_of(Role.CANDIDATE, port=1)
        caller, _ = scene.send()
        assert caller.told == []
        await caller.done.wait()
        assert caller.told == [str(Loss.REFUSED)]
        assert (scene.pool.connections, scene.pool.in_flight) == (0, 0)

    play(Scene(answers(OK)), scenario)


def test_whoever_waits_behind_a_refused_connection_is_next() -> None:
    """Its place is free, so the next one tries, and learns the same at once."""

    async def scenario(scene: Scene) -> None:
        scene.make(max_connections=1)
        scene.pool.arm = arm_of(Role.CANDIDATE, port=1, max_connections=1)
        for caller in [scene.send()[0] for _ in range(3)]:
            await caller.done.wait()
            assert caller.told == [str(Loss.REFUSED)]

    play(Scene(answers(OK)), scenario)


def test_a_connection_that_takes_too_long() -> None:
    """The attempt is given up, and leaves nothing behind."""

    async def scenario(scene: Scene) -> None:
        scene.make(connect_s=2.0)
        caller, _ = scene.send()
        scene.sweep(2.1)
        assert caller.told == [str(Loss.CONNECT_TIMEOUT)]
        assert (scene.pool.connections, scene.pool.in_flight) == (0, 0)

    play(Scene(answers(OK)), scenario)


@pytest.mark.parametrize(("unwanted", "connections"), [("cancel", 2), ("discard", 1)])
def test_cancel_closes_and_discard_keeps_the_connection(unwanted: str, connections: int) -> None:
    """The arm of a cancelled request sees it; a short answer that nobody wants is read to its end."""

    async def scenario(scene: Scene) -> None:
        released = asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\nab")
            await released.wait()
            writer.write(b"cd")

        scene.behave = slow
        scene.make()
        caller, leg = scene.send()
        await caller.got_head.wait()
        getattr(leg, unwanted)()
        released.set()
        await turns(lambda: scene.pool.in_flight == 0)
        following, _ = scene.send()
        await following.done.wait()
        assert caller.told == ["written", "head 503"]
        assert scene.accepted == connections

    play(Scene(answers(OK)), scenario)


def test_an_idle_connection_is_closed_after_its_time() -> None:
    """The arm's keep-alive time, counted from the last answer; one that is too old is not used either."""

    async def scenario(scene: Scene) -> None:
        scene.make(keepalive_s=5.0)
        caller, _ = scene.send()
        await caller.done.wait()
        scene.sweep(4.9)
        assert scene.pool.connections == 1
        scene.sweep(0.2)
        await turns(lambda: not scene.pool.connections)
        first, _ = scene.send()
        await first.done.wait()
        scene.clock.step(6.0)
        second, _ = scene.send()
        await second.done.wait()
        assert scene.accepted == 3

    play(Scene(answers(OK)), scenario)


def test_an_answer_to_nothing_closes_the_connection() -> None:
    """Bytes on an idle connection are nobody's answer."""

    async def scenario(scene: Scene) -> None:
        scene.make()
        caller, _ = scene.send()
        await caller.done.wait()
        scene.writers[0].write(OK)
        await turns(lambda: not scene.pool.connections)
        second, _ = scene.send()
        await second.done.wait()
        assert (second.body, scene.accepted) == (b"{}", 2)

    play(Scene(answers(OK)), scenario)


def test_a_retired_pool_finishes_what_was_written_and_nothing_else() -> None:
    """Idle connections go at once, busy ones with their answer; what waits or connects is for another arm."""

    async def scenario(scene: Scene) -> None:
        scene.make(max_connections=2)
        first, _ = scene.send()
        await first.done.wait()
        written, _ = scene.send()
        others = [scene.send()[0] for _ in range(3)]
        scene.pool.retire()
        for caller in (written, *others):
            await caller.done.wait()
        assert written.told[-1] == "complete"
        assert [caller.told for caller in others] == [["stale"]] * 3
        await turns(lambda: not scene.pool.connections)
        assert scene.pool.in_flight == 0

    play(Scene(answers(OK)), scenario)


def test_a_body_that_streams() -> None:
    """Pieces go out when the request is written, and a leg that has ended takes nothing."""
    got = bytearray()

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not got.endswith(b"0\r\n\r\n"):
            got.extend(await reader.read(100))
        writer.write(OK)

    async def scenario(scene: Scene) -> None:
        scene.make()
        caller, leg = scene.send(body=b"one", length=None, more=True)
        assert await leg.feed(b"two", last=False)
        scene.sweep(11.0)  # the client takes its time, which is not the arm's
        assert await leg.feed(b"three", last=True)
        await caller.done.wait()
        assert bytes(got) == b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"
        assert await leg.feed(b"four", last=True) is False

    play(Scene(collect), scenario)


def test_the_arms_time_runs_from_the_last_piece() -> None:
    """Once the body is there the first byte of the answer is due as usual."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scenario(scene: Scene) -> None:
        scene.make()
        caller, leg = scene.send(length=None, more=True)
        await caller.written.wait()
        scene.sweep(15.0)
        assert not caller.done.is_set()
        await leg.feed(b"end", last=True)
        scene.sweep(9.9)
        assert not caller.done.is_set()
        scene.sweep(0.2)
        assert caller.told[-1] == str(Loss.FIRST_BYTE_TIMEOUT)

    play(Scene(hang), scenario)


def test_a_slow_upload_takes_nothing_of_the_total_time() -> None:
    """All of the answer is due from the last piece, like its first byte."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")

    async def scenario(scene: Scene) -> None:
        scene.make(idle_s=100.0)
        caller, leg = scene.send(body=b"", length=None, more=True)
        await caller.written.wait()
        scene.sweep(1000.0)
        assert not caller.done.is_set()
        await leg.feed(b"end", last=True)
        await caller.got_head.wait()
        scene.sweep(29.9)
        assert not caller.done.is_set()
        scene.sweep(0.2)
        assert caller.told[-1] == str(Loss.TOTAL_TIMEOUT)

    play(Scene(half), scenario)


def test_an_arm_that_answers_early_is_not_charged_with_a_slow_upload() -> None:
    """Its answer has begun; what it says next may well depend on the rest of the body."""

    async def scenario(scene: Scene) -> None:
        scene.make(idle_s=5.0)
        caller, leg = scene.send(body=b"", length=None, more=True)
        await caller.got_head.wait()
        scene.sweep(1000.0)
        assert not caller.done.is_set()
        await leg.feed(b"end", last=True)
        scene.sweep(4.9)
        assert not caller.done.is_set()
        scene.sweep(0.2)
        assert caller.told[-1] == str(Loss.IDLE_TIMEOUT)

    play(Scene(answers(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")), scenario)


def test_an_arm_that_takes_no_more_of_a_body_is_idle() -> None:
    """The client has sent, the arm does not read: that is the arm's."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def scenario(scene: Scene) -> None:
        scene.make(idle_s=5.0)
        caller, leg = scene.send(body=b"", length=None, more=True)
        await caller.written.wait()
        feeding = asyncio.create_task(_feed_for_ever(leg))
        stuck = 0
        while not caller.done.is_set():
            await asyncio.sleep(0)
            stuck += 1
            if stuck % 1000 == 0:
                scene.sweep(5.1)
        assert caller.told == ["written", str(Loss.IDLE_TIMEOUT)]
        await feeding

    play(Scene(deaf), scenario)


async def _feed_for_ever(leg: Any) -> None:
    while await leg.feed(b"x" * 1_000_000, last=False):
        pass


def test_an_answer_without_a_total_limit_may_only_not_pause() -> None:
    """A stream goes on as long as it goes on."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")

    async def scenario(scene: Scene) -> None:
        scene.make(idle_s=5.0)
        caller, leg = scene.send()
        await caller.got_head.wait()
        leg.lift_total()
        for _ in range(20):
            size = len(caller.body)
            scene.writers[-1].write(b"y")
            await turns(lambda size=size: len(caller.body) > size)
            scene.sweep(4.5)
        assert not caller.done.is_set()
        scene.sweep(0.6)
        assert caller.told[-1] == str(Loss.IDLE_TIMEOUT)

    play(Scene(half), scenario)


def test_another_place_needs_another_pool() -> None:
    """Limits are taken over, an address is not."""

    async def scenario(scene: Scene) -> None:
        pool = scene.make()
        assert pool.reconfigure(arm_of(Role.CANDIDATE, port=pool.arm.port, max_connections=3))
        assert pool.arm.max_connections == 3
        assert not pool.reconfigure(arm_of(Role.CANDIDATE, port=pool.arm.port + 1))
        assert pool.arm.max_connections == 3

    play(Scene(answers(OK)), scenario)
