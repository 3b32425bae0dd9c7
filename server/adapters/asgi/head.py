"""HEAD for every path that has GET (RFC 9110 9.3.2): load balancers ask so for health."""

from litestar.enums import HttpMethod, ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send


class HeadAsGet:
    """Wraps an application, which sees a GET; uvicorn knows what was asked, and leaves the body out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and scope["method"] == HttpMethod.HEAD:
            seen = scope.copy()
            seen["method"] = HttpMethod.GET
            scope = seen
        await self._app(scope, receive, send)
