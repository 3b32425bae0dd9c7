"""The admin port answers for this machine only."""

import asyncio
import json
from typing import Any

import pytest

from server.adapters.asgi.hosts import HostGuard


def ask(*headers: tuple[bytes, bytes]) -> list[dict[str, Any]]:
    """What a guarded application and its guard send for a request with these headers."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the guard reads no body")

    scope: Any = {"type": "http", "headers": list(headers)}
    asyncio.run(HostGuard(app, ["127.0.0.2"])(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    "host", [b"127.0.0.1:8001", b"127.0.0.1", b"localhost:1", b"LocalHost", b"[::1]:8001", b"127.0.0.2:8001"]
)
def test_names_of_loopback_and_the_configured_one_pass(host: bytes) -> None:
    """With or without a port."""
    assert ask((b"accept", b"*/*"), (b"host", host))[0]["status"] == 200


@pytest.mark.parametrize(
    "host", [b"evil.example", b"127.0.0.1.evil.example:8001", b"", b"[", b"localhost@evil.example"]
)
def test_any_other_name_is_421(host: bytes) -> None:
    """A page that points its own name at loopback reads nothing."""
    start, body = ask((b"host", host))
    assert start["status"] == 421
    assert json.loads(body["body"])["reason"] == "host_not_allowed"


def test_no_name_is_421() -> None:
    """HTTP/1.1 asks for one."""
    assert ask()[0]["status"] == 421
