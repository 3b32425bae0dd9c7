"""The outermost layer of the admin port: who may ask at all. Written against DNS rebinding and cross-site requests.

Reads need no token on loopback, a replay included. Writes need the operator's bearer token everywhere, ``content-type:
application/json`` and, when an Origin is present, one that names this very host. No CORS header is ever sent.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from wire.admin import Refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

READS = frozenset({"GET", "HEAD"})
OPEN_OFF_LOOPBACK = frozenset({"/livez", "/readyz", "/startupz", "/metrics"})
READING_POSTS = frozenset({"/v1/replay"})
"""Change nothing, and bring a body: the token of a read, the other rules of a write."""
MAX_WRITE_BYTES = 1 << 20


class Guard:
    """Wraps the admin application. ``loopback``: reads go without a token."""

    def __init__(self, app: Asgi, *, matches: Callable[[str], bool], hosts: Iterable[str], loopback: bool) -> None:
        self._app, self._matches = app, matches
        self._hosts = frozenset(h.lower() for h in hosts)
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refuse(scope["method"], scope["path"], dict(scope["headers"]))
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, body = refusal
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": msgspec.json.encode(body)})

    def _refuse(self, method: str, path: str, headers: dict[bytes, bytes]) -> tuple[int, Refusal] | None:
        if not self._loopback and method in READS and path in OPEN_OFF_LOOPBACK:
            return None  # a kubelet and a scraper ask by address
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if _hostname(host) not in self._hosts:
            return 421, Refusal(error=f"host '{host[:100]}' is not served here", reason="host_not_allowed")
        if method in READS:
            if self._loopback or self._token_fits(headers):
                return None
            return 401, Refusal(error="reading this needs the operator token as a bearer token", reason="no_token")
        return self._refuse_write(headers, host, free=self._loopback and path in READING_POSTS)

    def _refuse_write(self, headers: dict[bytes, bytes], host: str, *, free: bool) -> tuple[int, Refusal] | None:
        origin = headers.get(b"origin")
        if origin is not None and _authority(origin.decode("latin-1")) != host:
            return 403, Refusal(error="the Origin header names another host", reason="origin_not_allowed")
        if not free and not self._token_fits(headers):
            return 401, Refusal(error="writing needs the operator token as a bearer token", reason="no_token")
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json":
            return 415, Refusal(error="writes need content-type: application/json", reason="content_type")
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or int(length) > MAX_WRITE_BYTES:
            return 413, Refusal(
                error=f"writes need a content-length of at most {MAX_WRITE_BYTES} bytes", reason="body_too_large"
            )
        return None

    def _token_fits(self, headers: dict[bytes, bytes]) -> bool:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and self._matches(token.decode("latin-1").strip())


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
