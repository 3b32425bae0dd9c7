"""The admin port: health, metrics, status, explanation, history and the commands. Litestar; guarded by guard.py."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import msgspec
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import State as AppState
from litestar.exceptions import HTTPException
from litestar.params import FromPath, QueryParameter

from gateway.adapters.asgi import views
from gateway.core.explain import explain
from gateway.core.plan import Plan, PlanError
from gateway.core.run import NotNow
from gateway.ports import StoreUnavailable
from gateway.runtime.analyst import Analyst
from gateway.runtime.case import present_case
from gateway.runtime.conductor import Applied, Conductor
from gateway.runtime.replay import CannotReplay, Replayer
from gateway.runtime.replica import Replica
from wire import admin

Rq = Request[Any, Any, AppState]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything that the admin endpoints touch."""

    name: str
    conductor: Conductor
    analyst: Analyst
    replica: Replica
    replayer: Replayer
    parse_plan: Callable[[dict[str, Any], str], tuple[Plan, str]]
    metrics: Callable[[], tuple[bytes, str]]
    draining: Callable[[], bool]
    beats: Callable[[], bool]
    """The control loop ran to its end not long ago."""


class Refused(Exception):
    """A command that changed nothing."""

    def __init__(self, status: int, refusal: admin.Refusal) -> None:
        super().__init__(refusal.error)
        self.status, self.refusal = status, refusal


def build(desk: Desk) -> Litestar:
    """The application over ready-made parts."""
    return Litestar(
        route_handlers=[*_health(desk), *_reads(desk), *_writes(desk)],
        openapi_config=None,
        logging_config=None,  # ours is set up in main: one JSON object a line
        exception_handlers={
            Refused: _refused,
            NotNow: _not_now,
            CannotReplay: _cannot_replay,
            StoreUnavailable: _no_store,
            HTTPException: _http_error,
        },
    )


def _health(desk: Desk) -> list[Any]:
    @get("/livez", media_type=MediaType.JSON)
    async def livez() -> Response[dict[str, Any]]:
        problems = [] if desk.beats() else ["the control loop does not beat"]
        if desk.replica.missing():
            problems.append(f"not running: worker {', '.join(desk.replica.missing())}")
        if desk.replica.silent():
            problems.append(f"no word from worker {', '.join(desk.replica.silent())}")
        return Response({"live": not problems, "problems": problems}, status_code=503 if problems else 200)

    @get("/readyz", media_type=MediaType.JSON)
    async def readyz() -> Response[dict[str, Any]]:
        problems = _not_ready(desk)
        return Response({"ready": not problems, "problems": problems}, status_code=503 if problems else 200)

    @get("/startupz", media_type=MediaType.JSON)
    async def startupz() -> Response[dict[str, Any]]:
        started = desk.replica.routed()
        return Response({"started": started}, status_code=200 if started else 503)

    @get("/metrics")
    async def metrics() -> Response[bytes]:
        body, content_type = desk.metrics()
        return Response(body, headers={"content-type": content_type})

    return [livez, readyz, startupz, metrics]


def _not_ready(desk: Desk) -> list[str]:
    """Depends neither on the store nor on the candidate nor on a passing outage of the baseline."""
    problems = []
    if desk.draining():
        problems.append("draining")
    if not desk.replica.routed():
        problems.append("not every worker has a routing snapshot")
    if not desk.conductor.baseline_seen_ready:
        problems.append("the baseline was not seen ready yet")
    return problems


def _reads(desk: Desk) -> list[Any]:
    @get(admin.STATUS_PATH)
    async def status() -> admin.Status:
        return views.status(desk.conductor, desk.analyst, desk.replica, name=desk.name)

    @get(admin.HISTORY_PATH)
    async def history(
        limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 100,
        run_id: Annotated[str | None, QueryParameter(max_length=64)] = None,
    ) -> admin.History:
        lines = await desk.conductor.store.history(limit=limit, run_id=run_id)
        return admin.History(lines=[views.journal_line(line) for line in lines])

    @get(admin.EXPLAIN_PATH)
    async def explanation() -> admin.Explanation:
        case = await present_case(desk.conductor, desk.analyst)
        return views.explanation(case, explain(case))

    @post(admin.REPLAY_PATH, status_code=200)
    async def replay(request: Rq) -> admin.Replay:
        asked = _decode(await request.body(), admin.ReplayRequest)
        plan = _parse_plan(desk, asked.plan)[0] if asked.plan is not None else None
        return views.replay(await desk.replayer.replay(asked.run_id, plan=plan, until=asked.at))

    return [status, history, explanation, replay]


def _writes(desk: Desk) -> list[Any]:
    @post(admin.START_PATH, status_code=200)
    async def start(request: Rq) -> admin.CommandResult:
        asked = _decode(await request.body(), admin.StartRequest)
        _require_reason(asked.reason, asked.who)
        plan, digest = _parse_plan(desk, asked.plan)
        return views.command_result(await desk.conductor.start(plan, digest, who=asked.who, reason=asked.reason))

    @post("/v1/commands/{command:str}", status_code=200)
    async def command(command: FromPath[str], request: Rq) -> admin.CommandResult:
        asked = _decode(await request.body(), admin.CommandRequest)
        _require_reason(asked.reason, asked.who)
        return views.command_result(await _perform(desk, command, asked))

    return [start, command]


def _parse_plan(desk: Desk, document: dict[str, Any]) -> tuple[Plan, str]:
    try:
        return desk.parse_plan(document, desk.name)
    except PlanError as error:
        refusal = admin.Refusal(error="the plan is refused", reason="plan", problems=error.problems)
        raise Refused(422, refusal) from error


async def _perform(desk: Desk, command: str, asked: admin.CommandRequest) -> Applied:
    conductor, who, reason = desk.conductor, asked.who, asked.reason
    match command:
        case "rollback":
            return await conductor.roll_back(who=who, reason=reason)
        case "pause":
            return await conductor.pause(who=who, reason=reason)
        case "resume":
            return await conductor.resume(who=who, reason=reason)
        case "finish":
            return await conductor.finish(who=who, reason=reason)
        case "promote":
            if asked.override and asked.confirm != desk.name:
                problem = f"confirm: '{asked.confirm}' must be the rollout's name, '{desk.name}'"
                raise Refused(409, admin.Refusal(error="not confirmed", reason="confirm", problems=[problem]))
            return await conductor.promote(who=who, reason=reason, override=asked.override)
        case _:
            allowed = "pause, resume, rollback, promote, finish"
            raise Refused(404, admin.Refusal(error=f"no command '{command}'; {allowed}", reason="no_such_command"))


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:  # says which field, by path; or nests too deeply
        refusal = admin.Refusal(error="the request is not as documented", reason="request", problems=[str(error)])
        raise Refused(422, refusal) from error


def _require_reason(reason: str, who: str) -> None:
    problems = [f"{name}: '' is not allowed" for name, value in (("reason", reason), ("who", who)) if not value.strip()]
    problems += [
        f"{name}: {len(value)} characters are too many; at most 500"
        for name, value in (("reason", reason), ("who", who))
        if len(value) > 500
    ]
    if problems:
        raise Refused(422, admin.Refusal(error="the request is incomplete", reason="request", problems=problems))


def _answer(status: int, refusal: admin.Refusal) -> Response[admin.Refusal]:
    return Response(refusal, status_code=status, media_type=MediaType.JSON)


def _refused(_: Rq, error: Refused) -> Response[admin.Refusal]:
    return _answer(error.status, error.refusal)


def _not_now(_: Rq, error: NotNow) -> Response[admin.Refusal]:
    return _answer(409, admin.Refusal(error=str(error), reason="not_now"))


_REPLAY_STATUS: Final = {"busy": 409, "no_run": 404, "not_recorded": 404, "plan": 422}


def _cannot_replay(_: Rq, error: CannotReplay) -> Response[admin.Refusal]:
    refusal = admin.Refusal(error=str(error), reason=error.reason, problems=error.problems)
    return _answer(_REPLAY_STATUS[error.reason], refusal)


def _no_store(_: Rq, error: StoreUnavailable) -> Response[admin.Refusal]:
    text = f"the store is not available, nothing changed; traffic goes on and rollback works: {error}"
    return _answer(503, admin.Refusal(error=text, reason="store_unavailable"))


def _http_error(_: Rq, error: HTTPException) -> Response[admin.Refusal]:
    return _answer(error.status_code, admin.Refusal(error=str(error.detail), reason="request"))
