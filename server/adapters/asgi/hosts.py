"""Who the admin port answers: only requests for a name of this machine, against DNS rebinding."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from wire.admin import Refusal

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
MAX_SHOWN: Final = 100


class HostGuard:
    """Wraps an application; a request for another host than loopback and ``hosts`` gets 421 (RFC 9110 15.5.20)."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if _hostname(given) in self._hosts:
            await self._app(scope, receive, send)
            return
        body = msgspec.json.encode(
            Refusal(error=f"host: got {given[:MAX_SHOWN]!r}, which is not served here", reason="host_not_allowed")
        )
        await send(
            {
                "type": "http.response.start",
                "status": 421,
                "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
            }
        )
        await send({"type": "http.response.body", "body": body, "more_body": False})


def _hostname(given: str) -> str:
    try:
        return urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return ""
