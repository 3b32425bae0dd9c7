"""HEAD as GET, and what the server below still sees."""

import asyncio
from typing import Any

import pytest

from server.adapters.asgi.head import HeadAsGet


@pytest.mark.parametrize(("kind", "method", "seen"), [("http", "HEAD", "GET"), ("http", "POST", "POST")])
def test_the_application_sees_a_get_and_the_server_a_head(kind: str, method: str, seen: str) -> None:
    """The scope of the server, by which it leaves the body out, stays as it was."""
    found: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["method"])

    scope: Any = {"type": kind, "method": method}
    asyncio.run(HeadAsGet(app)(scope, None, None))  # type: ignore[arg-type]
    assert found == [seen]
    assert scope["method"] == method
