"""The ASGI application without a server: what it reads of a request and what it sends to a client."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest
from fakes.arms import FakeLeg
from fakes.request_path import HOLD, Stage

from gateway.adapters.asgi.data import DataPlane
from gateway.core.types import Lane, Role

EMBED = b'{"model":"m","input":"x"}'


class Client:
    """One request and everything that was sent for it."""

    def __init__(self, stage: Stage, **changes: Any) -> None:
        values: dict[str, Any] = {
            "replay_buffer": 100,
            "replay_buffer_total": 1000,
            "max_body": 5000,
            "client_read_s": 5.0,
            "expose_timings": False,
        }
        self.app = DataPlane(
            proxy=stage.proxy, routing=stage.routing, draw=lambda n: b"\x07" * n, **{**values, **changes}
        )
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def ask(
        self,
        *pieces: bytes,
        path: str = "/v1/embeddings",
        method: str = "POST",
        headers: list[tuple[bytes, bytes]] | None = None,
        unfinished: bool = False,
    ) -> "Client":
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"a=1",
            "headers": headers or [],
        }
        for i, piece in enumerate(pieces or (b"",)):
            more = unfinished or i + 1 < len(pieces)
            self.inbox.put_nowait({"type": "http.request", "body": piece, "more_body": more})
        self.task = asyncio.create_task(self.app(scope, self.inbox.get, self._send))
        return self

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        self.news.set()

    def leave(self) -> None:
        self.inbox.put_nowait({"type": "http.disconnect"})

    async def done(self) -> "Client":
        assert self.task is not None
        await self.task
        return self

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


async def leg_of(stage: Stage, role: Role) -> FakeLeg:
    """The leg to ``role`` once the application has come that far."""
    for _ in range(50):
        await asyncio.sleep(0)
        if stage.pool(role).legs:
            return stage.leg(role)
    raise AssertionError(f"nothing was sent to the {role}")


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 10))


def test_a_whole_answer() -> None:
    """The body in one piece, with the length it has, the request id made here, and the arm's name."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage).ask(EMBED[:10], EMBED[10:])
        leg = await leg_of(stage, Role.CANDIDATE)
        assert (leg.request.body, leg.request.length, leg.request.more) == (EMBED, len(EMBED), False)
        assert leg.request.target == b"/v1/embeddings?a=1"
        assert leg.request.header_block == b"x-request-id: " + b"07" * 16 + b"\r\n"
        leg.answer(200, b"answer")
        await client.done()
        assert (client.status, client.body) == (200, b"answer")
        assert client.headers == {b"content-length": b"6", b"x-request-id": b"07" * 16, b"x-canary-arm": b"tpu"}

    play(scenario())


@pytest.mark.parametrize(
    ("method", "headers", "length"),
    [
        ("GET", [], None),
        ("GET", [(b"content-length", b"0")], 0),
        ("POST", [], 0),
        ("DELETE", [], None),
    ],
)
def test_an_empty_body_keeps_its_meaning(method: str, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
    """No body and a body of nothing are not the same to an arm."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage).ask(method=method, path="/v2", headers=headers)
        leg = await leg_of(stage, Role.BASELINE)
        assert leg.request.length == length
        leg.answer()
        await client.done()

    play(scenario())


def test_a_large_body_is_passed_on_piece_by_piece() -> None:
    """What was read before it was known to be large goes first; the end is marked."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage).ask(EMBED, b"y" * 90, b"z", b"end")
        leg = await leg_of(stage, Role.CANDIDATE)
        assert (leg.request.body, leg.request.more, leg.request.length) == (EMBED + b"y" * 90, True, None)
        while len(leg.fed) < 2:  # noqa: ASYNC110  # the fake leg has no event; play bounds the wait
            await asyncio.sleep(0)
        assert leg.fed == [b"z", b"end"]
        leg.answer(500, b"no")
        await client.done()
        assert client.status == 500

    play(scenario())


def test_a_stream_is_sent_as_it_comes() -> None:
    """Piece by piece, then an end; the length is the arm's."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage).ask(EMBED)
        leg = await leg_of(stage, Role.CANDIDATE)
        leg.head(200, length=HOLD + 1)
        leg.body(b"one")
        while len(client.sent) < 2:
            client.news.clear()
            await client.news.wait()
        assert client.sent[1] == {"type": "http.response.body", "body": b"one", "more_body": True}
        leg.body(b"two")
        leg.complete()
        await client.done()
        assert (client.body, client.sent[-1]["more_body"]) == (b"onetwo", False)

    play(scenario())


def test_a_broken_stream_is_left_unfinished() -> None:
    """The server in front then closes the connection, which the client sees."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage).ask(EMBED)
        leg = await leg_of(stage, Role.CANDIDATE)
        leg.head(200, events=True)
        leg.lose()
        await client.done()
        assert [message["type"] for message in client.sent] == ["http.response.start"]

    play(scenario())


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_client_that_leaves(when: str) -> None:
    """While its body comes in nothing has been sent; later the arm is cancelled. Nobody is answered."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage).ask(EMBED, unfinished=when == "before")
        if when == "before":
            await asyncio.sleep(0)
            client.leave()
            await client.done()
            assert stage.pool(Role.CANDIDATE).legs == []
        else:
            leg = await leg_of(stage, Role.CANDIDATE)
            client.leave()
            await client.done()
            assert leg.fate == "cancelled"
        assert client.sent == []

    play(scenario())


def test_a_task_that_is_cancelled_tells_the_arm_and_the_client() -> None:
    """A drain that takes too long ends in 503, not in a made-up 500."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage).ask(EMBED)
        leg = await leg_of(stage, Role.CANDIDATE)
        assert client.task is not None
        client.task.cancel()
        await client.done()
        assert leg.fate == "cancelled"
        assert (client.status, json.loads(client.body)["error"]["code"]) == (503, "draining")

    play(scenario())


@pytest.mark.parametrize("pieces", [(b"x" * 60,), (b"x" * 30, b"x" * 30)])
def test_a_body_beyond_the_limit_is_refused_though_it_could_be_kept(pieces: tuple[bytes, ...]) -> None:
    """Without an announced length the limit holds from the first byte; no arm hears of it."""

    async def scenario() -> None:
        stage = Stage()
        client = await Client(stage, max_body=59).ask(*pieces).done()
        assert (client.status, json.loads(client.body)["error"]["code"]) == (413, "body_too_large")
        assert b"at most 59" in client.body
        assert stage.pool(Role.CANDIDATE).legs == []

    play(scenario())


@pytest.mark.parametrize("pieces", [(EMBED,), (EMBED, b"y" * 90)], ids=["kept", "streamed"])
def test_a_body_that_does_not_come_is_given_up(pieces: tuple[bytes, ...]) -> None:
    """408 and a closed connection; the room for it is free again, and no arm is charged."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage, client_read_s=0.01, replay_buffer_total=len(EMBED)).ask(*pieces, unfinished=True)
        await client.done()
        assert (client.status, client.headers[b"connection"]) == (408, b"close")
        assert json.loads(client.body)["error"]["type"] == "invalid_request_error"
        counted = stage.counted(Role.CANDIDATE, Lane.LIVE)
        assert counted == ({"CANCELLED": 1, "NOT_REPLAYABLE": 1} if len(pieces) > 1 else {})
        assert [leg.fate for leg in stage.pool(Role.CANDIDATE).legs] == (["cancelled"] if len(pieces) > 1 else [])
        stage.pool(Role.CANDIDATE).legs.clear()
        following = Client(stage)
        following.app = client.app
        following.ask(EMBED)
        (await leg_of(stage, Role.CANDIDATE)).lose()
        (await leg_of(stage, Role.BASELINE)).answer()  # failed over, so it was kept
        await following.done()

    play(scenario())


def test_a_trickle_is_given_up_as_well() -> None:
    """No single pause is too long, but all of them together are more than such a body may take."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage, client_read_s=0.2).ask(EMBED, unfinished=True)
        assert client.task is not None
        while not client.task.done():
            await asyncio.wait([client.task], timeout=0.05)
            client.inbox.put_nowait({"type": "http.request", "body": b"y", "more_body": True})
        assert client.status == 408

    play(scenario())


def test_an_answer_may_take_longer_than_a_body() -> None:
    """A client that has sent everything is not hurried while it waits."""

    async def scenario() -> None:
        stage = Stage()
        client = Client(stage, client_read_s=0.0).ask(EMBED)
        leg = await leg_of(stage, Role.CANDIDATE)
        await asyncio.sleep(0.01)
        leg.answer(200, b"late")
        await client.done()
        assert (client.status, client.body) == (200, b"late")

    play(scenario())


def test_kept_bodies_give_their_room_back() -> None:
    """However a request ends, the next one finds the buffer empty."""

    async def scenario() -> None:
        stage = Stage()
        first = Client(stage, replay_buffer_total=30)
        for end in ("answer", "leave", "lose"):
            client = Client(stage)
            client.app = first.app
            client.ask(EMBED)
            for pool in (stage.pool(Role.CANDIDATE), stage.pool(Role.BASELINE)):
                pool.legs.clear()
            leg = await leg_of(stage, Role.CANDIDATE)
            if end == "answer":
                leg.answer()
            elif end == "leave":
                client.leave()
            else:
                leg.lose()
                (await leg_of(stage, Role.BASELINE)).lose()
            await client.done()
        assert "NOT_REPLAYABLE" not in stage.counted(Role.CANDIDATE, Lane.LIVE)

    play(scenario())
