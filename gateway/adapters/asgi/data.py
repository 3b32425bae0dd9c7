"""The data plane as a raw ASGI application: reads a request, hands it to the proxy, gives the client what comes back.

A body of at most ``replay_buffer`` is read whole before anything is sent, so that it can be sent again and copied. A
larger one, or one for which no buffer is left, is sent on as it comes: one arm, no failover, no copy.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from gateway.adapters.asgi.incoming import Incoming, read_headers
from gateway.adapters.asgi.outgoing import answer_headers, error_answer, failure_answer
from gateway.core.budget import Budget
from gateway.core.leg import Head, Headers, Outgoing
from gateway.core.routes import OWN_PATHS, Kind
from gateway.runtime.call import Call, Failure, StreamBroken, Streamed, Whole
from gateway.runtime.proxy import LiveRequest, Proxy
from gateway.runtime.routing import Route, Routing
from wire.errors import Reason

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_CLOSE: Final = (b"connection", b"close")
SLOWEST_BODY: Final = 16 * 1024
"""Bytes a second; the time that a client may take for its body in all is ``client_read_s`` and that of this rate."""


class ClientGone(Exception):
    """The client went away before its request was complete."""


class BodyTooLarge(Exception):
    """The client has sent more than is allowed."""


class BodyTooSlow(Exception):
    """The client has kept the gateway waiting for its body for too long."""


class DataPlane:
    """``draw`` gives bytes of chance for request ids. Sizes in bytes, times in seconds."""

    def __init__(
        self,
        *,
        proxy: Proxy,
        routing: Routing,
        draw: Callable[[int], bytes],
        replay_buffer: int,
        replay_buffer_total: int,
        max_body: int,
        client_read_s: float,
        expose_timings: bool,
    ) -> None:
        self._proxy = proxy
        self._routing = routing
        self._draw = draw
        self._replay_buffer = replay_buffer
        self._kept = Budget(replay_buffer_total)
        self._max_body = max_body
        self._client_read_s = client_read_s
        self._timings = expose_timings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] in OWN_PATHS:
            await self._own(scope, send)
            return
        route = self._routing.route
        key_header = None if route is None or route.snapshot.key_header is None else route.snapshot.key_header
        incoming = read_headers(scope["headers"], None if key_header is None else key_header.lower().encode())
        request_id = incoming.request_id or self._draw(16).hex()
        if (refusal := self._refusal(incoming)) is not None:
            await _give(send, *error_answer(scope["path"], *refusal, request_id))
            return
        body = _Body(receive, self._replay_buffer, self._kept, self._max_body, self._client_read_s)
        try:
            await body.read()
            # Only now: the routing may have changed while the body came in.
            if (route := self._routing.route) is None:
                no_route = (Reason.BASELINE_UNAVAILABLE, "the gateway has no routing yet")
                await _give(send, *error_answer(scope["path"], *no_route, request_id))
                return
            call = _call(scope, incoming, body, route, request_id)
            await self._serve(self._proxy.take(call, route), body, send)
        except ClientGone:
            return
        except BodyTooLarge:
            message = f"body: more than {self._max_body} bytes, at most {self._max_body} allowed"
            await _give(send, *error_answer(scope["path"], Reason.BODY_TOO_LARGE, message, request_id))
        except BodyTooSlow:
            message = f"body: {body.size} bytes came within {body.waited:.0f} s of waiting, which is too slow"
            await _give(send, *error_answer(scope["path"], Reason.BODY_TOO_SLOW, message, request_id))
        except asyncio.CancelledError:
            # The server's last word when a drain takes too long; it ignores this if an answer has begun.
            await self._cut_off(scope["path"], request_id, send)
        finally:
            body.release()

    async def _cut_off(self, path: str, request_id: str, send: Send) -> None:
        status, headers, body = error_answer(path, Reason.DRAINING, "the gateway is going away", request_id)
        headers.append(_CLOSE)
        try:
            await _give(send, status, headers, body)
        except RuntimeError:
            return  # an answer had begun; the connection is closed in the middle of it

    def _refusal(self, incoming: Incoming) -> tuple[Reason, str] | None:
        if incoming.length is not None and incoming.length > self._max_body:
            return Reason.BODY_TOO_LARGE, f"content-length: {incoming.length} bytes, at most {self._max_body} allowed"
        if incoming.content_type.startswith(b"application/grpc"):
            return Reason.UNSUPPORTED_MEDIA_TYPE, "gRPC is not served here; use JSON over HTTP/1.1"
        return None

    async def _serve(self, live: LiveRequest, body: "_Body", send: Send) -> None:
        watcher = asyncio.create_task(self._watch(live, body))
        try:
            reply = await live.reply
            match reply:
                case Whole():
                    length = None if live.call.outgoing.method == "HEAD" else len(reply.body)
                    headers = self._headers(live, reply.head, reply, length)
                    await _give(send, reply.head.status, headers, reply.body)
                case Streamed():
                    await self._stream(live, reply, send)
                case Failure():
                    await _give(send, *failure_answer(live.call.path, reply, live.call.request_id))
                case None:
                    return
        finally:
            watcher.cancel()
            # After an answer this changes nothing; before one, this task was cancelled and the arm must know.
            live.client_gone()

    def _headers(self, live: LiveRequest, head: Head, reply: Whole | Streamed, length: int | None) -> Headers:
        headers = answer_headers(
            head,
            arm=reply.arm,
            instead=reply.instead,
            request_id=live.call.request_id,
            timings=self._timings,
            length=length,
        )
        if self._routing.draining:
            headers.append(_CLOSE)
        return headers

    async def _stream(self, live: LiveRequest, reply: Streamed, send: Send) -> None:
        head = reply.head
        headers = self._headers(live, head, reply, None)
        await send({"type": "http.response.start", "status": head.status, "headers": headers})
        try:
            # ``send`` waits while the client is slow, and the stream then makes the arm wait.
            while (data := await reply.stream.read()) is not None:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except StreamBroken:
            return  # an answer that is not finished makes the server close the connection, which the client sees
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _watch(self, live: LiveRequest, body: "_Body") -> None:
        """Pass on the rest of a body that is not kept, then wait for the client to leave."""
        try:
            while body.more:
                await live.feed(await body.next(), last=not body.more)
            await body.gone()
        except ClientGone:
            live.client_gone()
        except BodyTooLarge:
            live.body_too_large()
        except BodyTooSlow:
            live.body_too_slow()

    async def _own(self, scope: Scope, send: Send) -> None:
        """Health of the gateway itself. Status alone decides, so no body says false under a 200."""
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            reason = (Reason.METHOD_NOT_ALLOWED, f"method: {scope['method']} is not allowed; GET or HEAD")
            await _give(send, *error_answer(path, *reason, None))
            return
        ready = self._routing.baseline_was_ready and not self._routing.draining
        word, is_true = ("live", True) if path.endswith("/live") else ("ready", ready)
        body = b'{"%b":%b}' % (word.encode(), b"true" if is_true else b"false")
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await _give(send, 200 if is_true else 503, headers, body)


class _Body:
    """A request's body: kept while it is small and there is room, passed on piece by piece otherwise."""

    def __init__(self, receive: Receive, most: int, kept: Budget, allowed: int, read_s: float) -> None:
        self._receive = receive
        self._most = most
        self._kept = kept
        self._allowed = allowed
        self._read_s = read_s
        self._taken = 0
        self.waited = 0.0
        self.data = b""
        self.size = 0
        self.more = True
        self.is_kept = True

    async def read(self) -> None:
        """Read until the end, or until it cannot be kept."""
        pieces: list[bytes] = []
        while self.more and self.is_kept:
            piece = await self.next()
            pieces.append(piece)
            self.is_kept = self.size <= self._most and self._kept.take(len(piece))
            if self.is_kept:
                self._taken += len(piece)
        self.data = pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def next(self) -> bytes:
        """The next piece. ClientGone when the client went away instead; BodyTooLarge; BodyTooSlow."""
        # Only waiting for the client counts, not what the arm takes. A single pause is limited, and so are all of them
        # together, because a byte now and then would hold the buffers and the arm for ever.
        in_all = self._read_s + self.size / SLOWEST_BODY
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(max(min(self._read_s, in_all - self.waited), 0.0)):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow from None
        finally:
            self.waited += loop.time() - began
        if message["type"] == "http.disconnect":
            raise ClientGone
        data: bytes = message.get("body", b"")
        self.more = message.get("more_body", False)
        self.size += len(data)
        if self.size > self._allowed:
            raise BodyTooLarge
        return data

    async def gone(self) -> None:
        """Wait for the client to leave; then ClientGone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise ClientGone

    def release(self) -> None:
        self._kept.give(self._taken)
        self._taken = 0


def _call(scope: Scope, incoming: Incoming, body: _Body, route: Route, request_id: str) -> Call:
    method: str = scope["method"]
    raw_path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    path = raw_path.decode("latin-1")
    length = incoming.length
    if not body.more:
        bodiless = not body.data and length is None and method not in _WITH_BODY
        length = None if bodiless else len(body.data)
    outgoing = Outgoing(
        method=method,
        target=raw_path + b"?" + query if query else raw_path,
        header_block=b"%bx-request-id: %b\r\n" % (incoming.header_block, request_id.encode()),
        body=body.data,
        length=length,
        more=body.more,
        epoch=route.snapshot.epoch,
    )
    return Call(
        path=path,
        request_id=request_id,
        key=incoming.key,
        deadline_s=incoming.deadline_s,
        judged=route.routes.kind(method, path, body.data) is Kind.JUDGED,
        replayable=body.is_kept and not body.more,
        outgoing=outgoing,
    )


async def _give(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
