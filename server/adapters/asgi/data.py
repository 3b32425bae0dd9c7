"""The data port: both inference protocols, and what about.py answers.

A POST to a path of an inference call is answered without Litestar, which costs more of the processor than all else that
such a request needs here. Any other request, and a path in another spelling, goes to Litestar, which knows all routes.
"""

from collections.abc import Coroutine
from typing import Any

from litestar import Litestar, Request, Response, post
from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.params import FromPath
from litestar.types import Message, Receive, Scope, Send

from server.adapters.asgi.about import about_routes
from server.adapters.asgi.answers import Answer, answer_error
from server.adapters.asgi.exchange import MAX_REQUEST_ID
from server.adapters.asgi.incoming import Asked
from server.adapters.asgi.inference import embed, infer
from server.adapters.asgi.view import DataView
from server.core.lifecycle import State
from wire import headers
from wire.openai import PATH as EMBEDDINGS

AnyRequest = Request[Any, Any, Any]


class DataApp:
    """The application of the data port."""

    def __init__(self, view: DataView) -> None:
        self.litestar = _litestar(view)
        self._view = view

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and scope["method"] == "POST":
            answering = self._answering(scope["path"], Asked.of(scope, receive))
            if answering is not None:
                await _send(send, await answering, _farewell(self._view, scope))
                return
        await self.litestar(scope, receive, send)

    def _answering(self, path: str, asked: Asked) -> Coroutine[Any, Any, Answer] | None:
        if path == EMBEDDINGS:
            return embed(self._view, asked)
        match path.split("/"):
            case ["", "v2", "models", model, "infer"] if model:
                return infer(self._view, asked, model, None)
            case ["", "v2", "models", model, "versions", version, "infer"] if model and version:
                return infer(self._view, asked, model, version)
            case _:
                return None


def _litestar(view: DataView) -> Litestar:
    """Every route, by its rules of paths and methods."""

    @post(EMBEDDINGS, status_code=200)
    async def embeddings(request: AnyRequest) -> Response[bytes]:
        return (await embed(view, Asked.of(request.scope, request.receive))).response()

    @post("/v2/models/{model:str}/infer", status_code=200)
    async def infer_model(request: AnyRequest, model: FromPath[str]) -> Response[bytes]:
        return (await infer(view, Asked.of(request.scope, request.receive), model, None)).response()

    @post("/v2/models/{model:str}/versions/{version:str}/infer", status_code=200)
    async def infer_version(request: AnyRequest, model: FromPath[str], version: FromPath[str]) -> Response[bytes]:
        return (await infer(view, Asked.of(request.scope, request.receive), model, version)).response()

    async def part(message: Message, scope: Scope) -> None:
        if message["type"] == "http.response.start":
            MutableScopeHeaders.from_message(message).update(_farewell(view, scope))

    return Litestar(
        [embeddings, infer_model, infer_version, *about_routes(view)],
        before_send=[part],
        exception_handlers={Exception: answer_error},
        logging_config=None,
        openapi_config=None,
    )


def _farewell(view: DataView, scope: Scope) -> dict[str, str]:
    """On every answer of the port: the request's id comes back, and of a server that leaves the connection is closed.

    A client that keeps its connection would otherwise send its next request at the moment it is cut.
    """
    said: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            said.setdefault(headers.REQUEST_ID, value.decode("latin-1")[:MAX_REQUEST_ID])
    life = view.life()
    if life.leaving or life.state is State.FAILED:
        said["connection"] = "close"
    return said


async def _send(send: Send, answer: Answer, more: dict[str, str]) -> None:
    named = {**answer.headers, **more}
    fields = [
        (b"content-type", answer.media_type.encode("latin-1")),
        (b"content-length", b"%d" % len(answer.body)),
        *((name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": fields})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
