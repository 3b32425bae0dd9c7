"""The admin port: probes and metrics, answered from memory, and profiles."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from litestar import Litestar, Response, get

from server.adapters.asgi.answers import answer_error, json_response
from server.adapters.asgi.profile import Record, profile_route
from server.core.lifecycle import Life
from wire.health import HealthBody


@dataclass(frozen=True, slots=True)
class AdminView:
    """Where the admin port looks."""

    life: Callable[[], Life]
    health: Callable[[], HealthBody]
    metrics: Callable[[], bytes]
    metrics_type: str
    record: Record | None = None


def admin_app(view: AdminView) -> Litestar:
    """``/startupz``, ``/readyz``, ``/livez``: the status is the answer, the body is for people."""

    def probe(good: bool) -> Response[bytes]:
        return json_response(msgspec.json.encode(view.health()), status=200 if good else 503)

    @get("/startupz")
    async def startupz() -> Response[bytes]:
        return probe(view.life().started)

    @get("/readyz")
    async def readyz() -> Response[bytes]:
        return probe(view.life().ready)

    @get("/livez")
    async def livez() -> Response[bytes]:
        return probe(view.life().live)

    @get("/metrics")
    async def metrics() -> Response[bytes]:
        return Response(content=view.metrics(), headers={"content-type": view.metrics_type})

    return Litestar(
        [startupz, readyz, livez, metrics, profile_route(view.record)],
        exception_handlers={Exception: answer_error},
        openapi_config=None,
        logging_config=None,
    )
