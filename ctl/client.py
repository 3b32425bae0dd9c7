"""The admin API over HTTP.

Errors, by whose fault they are:
    Unreachable    nothing useful answers at the address
    Refused        the gateway answered and changed nothing
"""

from types import TracebackType
from typing import Final, Self, TypeVar

import httpx
import msgspec

from ctl.config import Target
from wire import admin

# A rollback waits up to 5 s for the workers' acknowledgements before it answers.
_TIMEOUT_S: Final = 15.0
_CONNECT_S: Final = 3.0
_REPLAY_S: Final = 120.0
"""A day of recorded windows, judged between whatever else the gateway has to do."""

Body = TypeVar("Body")


class Unreachable(Exception):
    """No gateway answered. The text says what was tried and what to look at."""


class Refused(Exception):
    """The gateway refused. ``raw`` is its body."""

    def __init__(self, status: int, refusal: admin.Refusal, raw: bytes) -> None:
        super().__init__(refusal.error)
        self.status = status
        self.refusal = refusal
        self.raw = raw


class AdminClient:
    """One gateway. Every method returns the decoded body and the raw one. Raises Unreachable and Refused."""

    def __init__(self, target: Target, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"accept": "application/json"}
        if target.token is not None:
            headers["authorization"] = f"Bearer {target.token}"
        self._target = target
        # Proxies of the environment are not for the admin port.
        self._http = httpx.Client(
            base_url=target.url,
            headers=headers,
            trust_env=False,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._http.close()

    def status(self) -> tuple[admin.Status, bytes]:
        return self._call("GET", admin.STATUS_PATH, admin.Status)

    def explanation(self) -> tuple[admin.Explanation, bytes]:
        return self._call("GET", admin.EXPLAIN_PATH, admin.Explanation)

    def history(self, *, limit: int, run_id: str) -> tuple[admin.History, bytes]:
        query = {"limit": str(limit)} | ({"run_id": run_id} if run_id else {})
        return self._call("GET", admin.HISTORY_PATH, admin.History, query=query)

    def replay(self, request: admin.ReplayRequest) -> tuple[admin.Replay, bytes]:
        body = msgspec.json.encode(request)
        return self._call("POST", admin.REPLAY_PATH, admin.Replay, body=body, within_s=_REPLAY_S)

    def start(self, request: admin.StartRequest) -> tuple[admin.CommandResult, bytes]:
        return self._call("POST", admin.START_PATH, admin.CommandResult, body=msgspec.json.encode(request))

    def command(self, name: str, request: admin.CommandRequest) -> tuple[admin.CommandResult, bytes]:
        path = admin.COMMAND_PATH.format(command=name)
        return self._call("POST", path, admin.CommandResult, body=msgspec.json.encode(request))

    def _call(
        self,
        method: str,
        path: str,
        kind: type[Body],
        *,
        body: bytes | None = None,
        query: dict[str, str] | None = None,
        within_s: float = _TIMEOUT_S,
    ) -> tuple[Body, bytes]:
        headers = {"content-type": "application/json"} if body is not None else {}
        url = self._target.url
        try:
            limit = httpx.Timeout(within_s, connect=_CONNECT_S)
            answer = self._http.request(method, path, content=body, params=query, headers=headers, timeout=limit)
        except httpx.TimeoutException as slow:
            raise Unreachable(
                f"{url}: no answer in time ({type(slow).__name__}). Whether the command took effect is not known:"
                " look with `canaryctl status`, then at the gateway's log."
            ) from slow
        except httpx.TransportError as failed:
            raise Unreachable(
                f"{url}: {failed}. Is the gateway running, and is this its admin port (8081), not its data port?"
                " Set --url or CANARY_URL."
            ) from failed
        if answer.is_success:
            return _decode(answer.content, kind, url), answer.content
        raise Refused(answer.status_code, _refusal(answer, url), answer.content)


def _decode(raw: bytes, kind: type[Body], url: str) -> Body:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as foreign:
        raise Unreachable(
            f"{url} answers, but not as a gateway's admin port does ({foreign})."
            " Check --url, and that canaryctl and gateway are of one version."
        ) from foreign


def _refusal(answer: httpx.Response, url: str) -> admin.Refusal:
    try:
        return msgspec.json.decode(answer.content, type=admin.Refusal)
    except (msgspec.DecodeError, RecursionError) as foreign:
        raise Unreachable(
            f"{url} answers {answer.status_code}, but not as a gateway's admin port does. Check --url: the admin port"
            " is 8081 unless configured otherwise."
        ) from foreign
