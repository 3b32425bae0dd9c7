"""One connection without a socket: the bytes of an arm in, what its owner is told out."""

import asyncio
from typing import Any, cast

import pytest
from fakes.arms import HandClock, arm_of
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.adapters.upstream.connection import MAX_HEAD, Connection, PooledLeg
from gateway.adapters.upstream.sweeper import Sweeper
from gateway.core.classify import Loss
from gateway.core.leg import Head, Outgoing, Patience
from gateway.core.types import Role


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Still:
    def call_later(self, delay: float, callback: Any) -> Any:
        return None


class Home:
    """A pool of one connection, and the owner of its leg."""

    def __init__(self, method: str = "POST") -> None:
        self.clock = HandClock()
        self.arm = arm_of(Role.CANDIDATE)
        self.sweeper = Sweeper(cast(asyncio.AbstractEventLoop, Still()), self.clock)
        self.told: list[str] = []
        self.body = b""
        self.heads: list[Head] = []
        self.kept: bool | None = None
        self.retries = 0
        self.wire = Wire()
        self.connection = Connection(self)
        self.connection.connection_made(cast(asyncio.Transport, self.wire))
        request = Outgoing(method=method, target=b"/", header_block=b"", body=b"", length=0, epoch=1)
        self.leg = PooledLeg(self, request, self, Patience(10.0, 30.0), self.now())

    def begin(self) -> "Home":
        assert self.connection.begin(self.leg)
        return self

    def feed(self, data: bytes, *, cuts: int = 0) -> "Home":
        """As it is, or in pieces of ``cuts`` bytes; nothing is fed to a closed connection."""
        step = cuts or max(len(data), 1)
        for i in range(0, len(data), step):
            if not self.wire.closed:
                self.connection.data_received(data[i : i + step])
        return self

    def closes(self) -> "Home":
        """The arm closes."""
        self.connection.connection_lost(None)
        return self

    # The pool.

    def now(self) -> float:
        return self.clock.monotonic()

    def connect(self, leg: PooledLeg) -> None:
        self.retries += 1

    def complete(self, connection: Connection, leg: PooledLeg, *, keep: bool) -> None:
        leg.is_open = False
        self.kept = keep
        connection.leg = None
        if keep:
            connection.rest(self.now())
        else:
            connection.close()
        self.told.append("complete")

    def lost(self, leg: PooledLeg, loss: Loss) -> None:
        self.end(leg)
        self.told.append(str(loss))

    def stale(self, leg: PooledLeg) -> None:
        self.told.append("stale")

    def end(self, leg: PooledLeg) -> None:
        leg.is_open = False
        self.connection.leg = None
        self.connection.close()

    def gone(self, connection: Connection) -> None: ...

    def wake(self) -> None: ...

    async def changed(self) -> None: ...

    # The owner.

    def may_write(self) -> bool:
        return True

    def on_written(self) -> None: ...

    def on_head(self, head: Head) -> None:
        self.heads.append(head)
        self.told.append(f"head {head.status}")

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_complete(self) -> None: ...

    def on_lost(self, loss: Loss) -> None: ...


def home(method: str = "POST") -> Home:
    """A connection with a request written on it."""
    return Home(method).begin()


GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nx-a: b\r\n\r\nabc"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


@pytest.mark.parametrize("cuts", [0, 1, 2, 7])
@pytest.mark.parametrize("raw", [GOOD, CHUNKED, b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD])
def test_an_answer_is_the_same_however_it_is_cut(raw: bytes, cuts: int) -> None:
    """Whole or byte by byte, with an interim answer before it or not."""
    got = home().feed(raw, cuts=cuts)
    assert (got.told, got.body, got.kept) == (["head 200", "complete"], b"abc", True)
    assert not got.wire.closed


def test_header_names_are_lower_case() -> None:
    """The rest of the gateway compares them so."""
    assert home().feed(GOOD.replace(b"x-a", b"X-A")).heads[0].headers == [(b"content-length", b"3"), (b"x-a", b"b")]


@pytest.mark.parametrize(
    "raw",
    [
        GOOD + GOOD,
        GOOD + b"junk",
        CHUNKED + b"x",
        GOOD.replace(b"x-a: b", b"connection: close"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc",
    ],
    ids=["second answer", "junk", "after chunks", "close", "http/1.0"],
)
def test_a_connection_that_cannot_be_trusted_again_is_closed(raw: bytes) -> None:
    """The answer is whole and good; what follows it is nobody's."""
    got = home().feed(raw)
    assert (got.told, got.body, got.kept) == (["head 200", "complete"], b"abc", False)
    assert got.wire.closed


@pytest.mark.parametrize(
    "raw",
    [
        b"junk",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEAD,
        GOOD.replace(b"200", b"099"),
        GOOD.replace(b"200", b"600"),
        GOOD.replace(b"200", b"999"),
    ],
    ids=["junk", "status", "length", "endless", "below 100", "600", "999"],
)
def test_what_is_no_answer_is_garbage(raw: bytes) -> None:
    """And the connection is of no use any more."""
    got = home().feed(raw)
    assert (got.told, got.wire.closed) == (["garbage"], True)


@pytest.mark.parametrize("cuts", [0, 1])
def test_trailers_are_dropped(cuts: int) -> None:
    """A header that comes after the body could say anything about an answer that is under way already."""
    got = home().feed(CHUNKED[:-2] + b"content-type: text/html\r\nx-late: 1\r\n\r\n", cuts=cuts)
    assert (got.told, got.body, got.kept) == (["head 200", "complete"], b"abc", True)
    assert got.heads[0].headers == [(b"transfer-encoding", b"chunked")]


def test_garbage_after_the_head_loses_the_answer() -> None:
    """A body that breaks its own framing is lost, not passed on as whole."""
    got = home().feed(CHUNKED[:-12]).feed(b"zz\r\n")
    assert got.told == ["head 200", "garbage"]


def test_the_end_of_the_connection_ends_an_answer_without_length_only() -> None:
    """With a length it is an answer cut short."""
    assert home().feed(b"HTTP/1.1 200 OK\r\n\r\nabc").closes().told == ["head 200", "complete"]
    assert home().feed(GOOD[:-1]).closes().told == ["head 200", "reset"]
    assert home().feed(CHUNKED[:-3]).closes().told == ["head 200", "reset"]
    assert home().closes().told == ["reset"]


def test_an_error_ends_no_answer() -> None:
    """A reset is no end of an answer without length."""
    got = home().feed(b"HTTP/1.1 200 OK\r\n\r\nabc")
    got.connection.connection_lost(ConnectionResetError())
    assert got.told == ["head 200", "reset"]


def test_an_answer_to_head_has_no_body() -> None:
    """Its length is that of what is not sent."""
    got = home("HEAD").feed(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n")
    assert (got.told, got.heads[0].length, got.kept) == (["head 200", "complete"], 99, False)


def test_only_a_kept_connection_without_a_byte_is_tried_again() -> None:
    """And only once."""
    got = home().feed(GOOD)
    got.leg.is_open = True
    got.begin().closes()
    assert (got.retries, got.told) == (1, ["head 200", "complete"])
    got.connection.leg = got.leg
    got.closes()
    assert (got.retries, got.told[2:]) == (1, ["reset"])
    got = home().feed(GOOD)
    got.leg.is_open = True
    got.begin().feed(b"HTTP").closes()
    assert (got.retries, got.told[2:]) == (0, ["reset"])


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from([GOOD, CHUNKED, b"HTTP/1.1 ", b"200", b"\r\n", b"0"])).map(b"".join)
)
@example(GOOD[:20])
def test_any_bytes_end_a_request_once_and_alike(data: bytes) -> None:
    """Whatever an arm sends, whole or byte by byte, the owner is told one end, and the same answer."""
    whole, pieces = home().feed(data).closes(), home().feed(data, cuts=1).closes()
    for got in (whole, pieces):
        assert sum(not word.startswith("head") for word in got.told) == 1
    assert whole.told[-1] == pieces.told[-1]
    if whole.told[-1] == "complete":
        assert (whole.told, whole.body, whole.heads) == (pieces.told, pieces.body, pieces.heads)
