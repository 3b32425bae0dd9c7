"""The admin port: who may ask, what is refused, what a command answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec
import pytest
from fakes.control import READY_B, READY_C, Stage, seconds, stage, tick
from prometheus_client.parser import text_string_to_metric_families

from gateway.adapters.asgi.admin import Desk, build
from gateway.adapters.asgi.guard import Guard
from gateway.adapters.plan_document import parse_plan
from gateway.adapters.prom import GatewayCollector, exposition
from gateway.core.snapshot import LatencyCounts, Report
from gateway.core.types import Count, Lane, Role
from gateway.runtime.record import Record
from gateway.runtime.replay import Replayer
from wire import admin, metrics

TOKEN = "t0ken"
WRITE = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
PLAN = {
    "apiVersion": "canary/v1",
    "kind": "Plan",
    "rollout": "demo",
    "preset": "demo",
    "steps": [10, 100],
    "slo": {"error": {"allowed": 0.05}},
    "declared_differences": ["dtype"],
}


def ask(
    scenario: Callable[[httpx.AsyncClient, Stage], Awaitable[None]], *, loopback: bool = True, draining: bool = False
) -> None:
    """Runs a scenario against the guarded application over a stage."""

    async def run() -> None:
        s = stage()
        await s.conductor.restore()
        collector = GatewayCollector(s.conductor, s.analyst, s.replica)
        desk = Desk(
            name="demo", conductor=s.conductor, analyst=s.analyst, replica=s.replica,
            replayer=Replayer(s.store, s.store), parse_plan=parse_plan,
            metrics=lambda: exposition(collector), draining=lambda: draining, beats=lambda: True,
        )  # fmt: skip
        guarded: Any = Guard(build(desk), matches=lambda t: t == TOKEN, hosts=["127.0.0.1"], loopback=loopback)
        transport = httpx.ASGITransport(guarded)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as client:
            await scenario(client, s)

    asyncio.run(run())


def start_body(**change: Any) -> bytes:
    return msgspec.json.encode({"plan": PLAN, "reason": "try it", "who": "me@here", **change})


async def make_ready(s: Stage) -> None:
    s.conductor.arm_health("gpu", READY_B)
    s.conductor.arm_health("tpu", READY_C)
    await tick(s)


def test_a_run_through_the_api() -> None:
    """start, status, pause, resume, rollback and history tell one story in the documented shapes."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        started = await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        assert started.status_code == 200, started.text
        assert msgspec.json.decode(started.content, type=admin.CommandResult).state == "validating"
        await make_ready(s)
        await seconds(s, 5)
        status = msgspec.json.decode((await client.get(admin.STATUS_PATH)).content, type=admin.Status)
        assert (status.state, status.weight) == ("stepping", 1000)
        assert status.verdict is not None
        assert [m.metric for m in status.verdict.metrics] == ["error", "refused"]
        assert {arm.name: arm.live > 0 for arm in status.arms} == {"gpu": True, "tpu": True}
        command = msgspec.json.encode({"reason": "lunch", "who": "me"})
        for name, state in (("pause", "paused"), ("resume", "stepping"), ("rollback", "rolled_back")):
            answer = await client.post(f"/v1/commands/{name}", content=command, headers=WRITE)
            assert msgspec.json.decode(answer.content, type=admin.CommandResult).state == state
        lines = msgspec.json.decode((await client.get(admin.HISTORY_PATH)).content, type=admin.History).lines
        assert [line.kind for line in lines] == [
            "start", "validated", "step", "pause", "resume", "rollback", "zero",
        ]  # fmt: skip
        final = msgspec.json.decode((await client.get(admin.STATUS_PATH)).content, type=admin.Status)
        assert final.run is not None
        assert (final.run.outcome, final.run.rule) == ("ROLLED_BACK", "person")
        assert {arm.name: arm.live > 0 for arm in final.arms} == {"gpu": True, "tpu": True}

    ask(scenario)


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({}, 401, "no_token"),
        ({"authorization": "Bearer wrong"}, 401, "no_token"),
        ({"authorization": f"Basic {TOKEN}"}, 401, "no_token"),
        ({**WRITE, "content-type": "text/plain"}, 415, "content_type"),
        ({**WRITE, "content-type": "application/x-www-form-urlencoded"}, 415, "content_type"),
        ({**WRITE, "origin": "http://evil.example"}, 403, "origin_not_allowed"),
        ({"origin": "http://["}, 403, "origin_not_allowed"),
        ({**WRITE, "host": "evil.example"}, 421, "host_not_allowed"),
    ],
)
def test_writes_that_are_not_the_operators_change_nothing(headers: dict[str, str], status: int, reason: str) -> None:
    """No token, another host, another origin, a form: refused with a reason, and no run is opened."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        answer = await client.post(admin.START_PATH, content=start_body(), headers=headers)
        assert answer.status_code == status
        assert msgspec.json.decode(answer.content, type=admin.Refusal).reason == reason
        assert s.conductor.rollout.run is None
        assert s.store.lines == []

    ask(scenario)


def test_an_origin_that_names_this_host_may_write() -> None:
    """A page of the gateway itself is no stranger."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        headers = {**WRITE, "origin": "http://127.0.0.1:8081"}
        assert (await client.post(admin.START_PATH, content=start_body(), headers=headers)).status_code == 200

    ask(scenario)


def test_off_loopback_reads_need_the_token_too() -> None:
    """Health and metrics stay open for probes and scrapes; status does not."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        assert (await client.get(admin.STATUS_PATH)).status_code == 401
        assert (await client.get(admin.STATUS_PATH, headers=WRITE)).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/livez")).status_code == 200
        by_address = {"host": "10.4.2.1:8081"}
        assert (await client.get("/readyz", headers=by_address)).status_code == 503
        assert (await client.get(admin.STATUS_PATH, headers={**WRITE, **by_address})).status_code == 421

    ask(scenario, loopback=False)


def test_a_read_from_a_foreign_host_name_is_refused() -> None:
    """DNS rebinding: the Host header must name this machine."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        assert (await client.get(admin.STATUS_PATH, headers={"host": "attacker.example"})).status_code == 421

    ask(scenario)


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        (admin.START_PATH, start_body(plan={**PLAN, "steps": []}), 422, "plan"),
        (admin.START_PATH, start_body(reason=" "), 422, "request"),
        (admin.START_PATH, b"{", 422, "request"),
        (admin.START_PATH, b'{"plan": ' + b"[" * 100_000, 422, "request"),
        (admin.START_PATH, b'{"plan": 1}', 422, "request"),
        ("/v1/commands/explode", b'{"reason": "x", "who": "y"}', 404, "no_such_command"),
        ("/v1/commands/finish", b'{"reason": "x", "who": "y"}', 409, "not_now"),
        ("/v1/commands/promote", b'{"reason": "x", "who": "y", "override": true}', 409, "confirm"),
        ("/v1/nothing", b"{}", 404, "request"),
    ],
)
def test_refusals_say_why(path: str, body: bytes, status: int, reason: str) -> None:
    """Bad plans, bad bodies, unknown commands and commands that do not fit: 4xx, a reason, nothing changed."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        answer = await client.post(path, content=body, headers=WRITE)
        refusal = msgspec.json.decode(answer.content, type=admin.Refusal)
        assert (answer.status_code, refusal.reason) == (status, reason)
        assert s.conductor.rollout.run is None

    ask(scenario)


def test_a_second_start_names_the_open_run_and_a_lost_store_is_a_503() -> None:
    """409 while a run is open; 503 when the store cannot take the start."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        s.store.down = True
        lost = await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        assert (lost.status_code, lost.json()["reason"]) == (503, "store_unavailable")
        s.store.down = False
        assert (await client.post(admin.START_PATH, content=start_body(), headers=WRITE)).status_code == 200
        again = await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        assert again.status_code == 409
        assert "run2" in again.json()["error"]

    ask(scenario)


def test_health_follows_worker_baseline_and_drain() -> None:
    """Ready needs a routed worker and a baseline seen once; a later outage of the baseline does not unready it."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        assert (await client.get("/readyz")).json()["problems"] == ["the baseline was not seen ready yet"]
        await make_ready(s)
        assert (await client.get("/readyz")).status_code == 200
        s.conductor.arm_health("gpu", s.conductor.health["gpu"].__class__(ready=False, detail="gone"))
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/startupz")).status_code == 200
        s.clock.advance(11.0)
        silent = await client.get("/livez")
        assert (silent.status_code, silent.json()["problems"]) == (503, ["no word from worker w0"])
        s.replica.detach("w0")
        assert (await client.get("/startupz")).status_code == 503
        assert (await client.get("/livez")).json()["problems"] == ["not running: worker w0"]

    ask(scenario)

    async def leaving(client: httpx.AsyncClient, s: Stage) -> None:
        assert "draining" in (await client.get("/readyz")).json()["problems"]

    ask(leaving, draining=True)


def test_metrics_are_well_formed_and_follow_the_counts() -> None:
    """A scrape parses, carries only names from wire.metrics, and shows what was counted."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        await make_ready(s)
        await seconds(s, 3, ok=20, failed=1)
        families = {f.name: f for f in text_string_to_metric_families((await client.get("/metrics")).text)}
        known = {v.name for v in vars(metrics).values() if isinstance(v, metrics.Metric)}
        assert set(families) <= known
        failed = [
            sample.value
            for sample in families[metrics.GATEWAY_REQUESTS.name].samples
            if sample.labels == {"arm": "candidate", "lane": "live", "outcome": "failed"}
        ]
        assert failed == [3.0]
        assert families[metrics.GATEWAY_WEIGHT.name].samples[0].value == pytest.approx(0.1)

    ask(scenario)


def test_ends_of_streams_and_incomplete_windows_are_exported() -> None:
    """Whole and broken streams apart, by arm and lane; a silent worker's windows in metrics and status."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        s.traffic()
        tally = s.analyst.ever.tallies[Role.CANDIDATE, Lane.LIVE]
        tally[Count.STREAMS], tally[Count.STREAMS_BROKEN] = 5, 2
        s.analyst.attach("w1")
        s.clock.advance(60.0)
        await tick(s)
        families = {f.name: f for f in text_string_to_metric_families((await client.get("/metrics")).text)}
        ends = {
            sample.labels["end"]: sample.value
            for sample in families[metrics.GATEWAY_STREAMS.name].samples
            if (sample.labels["arm"], sample.labels["lane"]) == ("candidate", "live")
        }
        assert ends == {"whole": 3.0, "broken": 2.0}
        (counted,) = families[metrics.GATEWAY_INCOMPLETE.name].samples
        status = msgspec.json.decode((await client.get(admin.STATUS_PATH)).content, type=admin.Status)
        assert counted.value == status.control["incomplete_windows"] > 0

    ask(scenario)


def test_explain_tells_a_run_from_beginning_to_end() -> None:
    """Every state in the documented shape; the end with metric, rule, outcome and one change."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        async def explained() -> admin.Explanation:
            answer = await client.get(admin.EXPLAIN_PATH)
            assert answer.status_code == 200, answer.text
            return msgspec.json.decode(answer.content, type=admin.Explanation)

        assert (await explained()).headline.startswith("Idle: ")
        await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        waiting = await explained()
        assert (waiting.state, waiting.facts[-1].label) == ("validating", "Missing")
        await make_ready(s)
        await seconds(s, 5)
        going = await explained()
        assert (going.state, going.weight, going.verdict, going.outcome) == ("stepping", 1000, "HOLD", None)
        await seconds(s, 12, failed=8)
        end = await explained()
        assert (end.state, end.verdict, end.outcome) == ("rolled_back", "ROLL_BACK", "ROLLED_BACK")
        assert (end.metric, end.rule, end.run_id) == ("error", "evidence", "run1")
        assert [fact.label for fact in end.facts][:5] == ["Seen", "Limit", "Baseline", "Samples", "Rule"]
        assert end.next.count("Change one thing: ") == 1

    ask(scenario)


def test_explain_survives_the_store_and_claims_no_verdict_for_a_person() -> None:
    """A rollback by hand while the store is down is explained from memory."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        await make_ready(s)
        s.store.down = True
        await client.post(
            "/v1/commands/rollback", content=msgspec.json.encode({"reason": "pager", "who": "me"}), headers=WRITE
        )
        s.conductor.record = Record(s.store, s.analyst)  # as after a restart
        answer = await client.get(admin.EXPLAIN_PATH)
        assert answer.status_code == 200
        told = msgspec.json.decode(answer.content, type=admin.Explanation)
        assert (told.verdict, told.rule, told.metric) == (None, "person", None)
        assert "pager" in told.headline
        s.store.down = False

    ask(scenario)


def test_recent_percentiles_are_of_now_also_after_the_end() -> None:
    """Beside the figures of the run that has ended: what the arms do since then."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        await make_ready(s)
        s.analyst.report(slow_answers(s, 30))
        await seconds(s, 3)
        await s.conductor.roll_back(who="me", reason="pager")
        s.analyst.report(slow_answers(s, 5))
        told = msgspec.json.decode((await client.get(admin.STATUS_PATH)).content, type=admin.Status)
        baseline = told.arms[0]
        assert (baseline.latency.count, baseline.recent.count) == (30, 5)

    ask(scenario)


def slow_answers(s: Stage, n: int) -> Report:
    latencies = [LatencyCounts(role=Role.BASELINE, lane=Lane.LIVE, bins=[(100, n)])]
    return Report(
        name="w0", version=1, epoch=s.conductor.rollout.epoch, at=s.clock.wall(), windows=[], latencies=latencies,
        open_since=None, breaker=(0.0, 0.0), seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0),
        connections=(0, 0),
    )  # fmt: skip


def test_status_says_who_overrode_and_whether_the_count_is_whole() -> None:
    """A restart leaves a count that begins there."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        await make_ready(s)
        await seconds(s, 3)
        await s.conductor.promote(who="bob", reason="r", override=True)
        for whole in (True, False):
            told = msgspec.json.decode((await client.get(admin.STATUS_PATH)).content, type=admin.Status).run
            assert told is not None
            assert (told.overrides, told.live_complete) == (["step 1 by bob"], whole)
            s.analyst.counted_from += 1.0

    ask(scenario)


def test_off_loopback_explain_needs_the_token() -> None:
    """It is read like the status."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        assert (await client.get(admin.EXPLAIN_PATH)).status_code == 401
        told = await client.get(admin.EXPLAIN_PATH, headers={"authorization": f"Bearer {TOKEN}"})
        assert told.status_code == 200

    ask(scenario, loopback=False)


def test_start_says_what_the_traffic_promises_and_the_status_keeps_it() -> None:
    """Rate, time of each step and horizon are in the answer, in the status and in the explanation."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        await seconds(s, 30, ok=10)
        answer = await client.post("/v1/start", headers=WRITE, content=start_body())
        told = "At 20 judged requests a second (counted at the start) the steps should take: 10 % about "
        assert told in answer.json()["detail"]
        run = (await client.get("/v1/status")).json()["run"]
        assert (run["outlook"]["rate"], len(run["outlook"]["step_s"])) == (20.0, 2)
        assert run["outlook"]["horizon_s"] > 720.0
        assert run["outlook"]["text"].startswith(told)
        assert run["longest_step_s"] == 60.0
        facts = (await client.get("/v1/explain")).json()["facts"]
        assert [fact["text"] for fact in facts if fact["label"] == "Expected"] == [run["outlook"]["text"]]

    ask(scenario)


def rolled_back_run(s: Stage) -> Awaitable[None]:
    async def scenario() -> None:
        await make_ready(s)
        await seconds(s, 5)
        await seconds(s, 20, failed=4)
        await s.conductor.keep_checkpoint()

    return scenario()


def test_a_run_is_replayed_and_another_plan_is_judged_by() -> None:
    """Changes nothing, so on loopback it needs no token; what cannot be judged again is refused by name."""

    async def scenario(client: httpx.AsyncClient, s: Stage) -> None:
        await client.post(admin.START_PATH, content=start_body(), headers=WRITE)
        await rolled_back_run(s)
        before = (s.conductor.rollout, len(s.store.lines))
        reads = {"content-type": "application/json"}

        async def ask_for(**asked: Any) -> httpx.Response:
            return await client.post(admin.REPLAY_PATH, content=msgspec.json.encode(asked), headers=reads)

        answer = await ask_for(run_id="run1")
        assert answer.status_code == 200, answer.text
        found = msgspec.json.decode(answer.content, type=admin.Replay)
        assert (found.same, found.other_plan, found.holes) == (True, None, [])
        assert found.final is not None
        assert (found.final.verdict, found.final.metric, found.final.weight) == ("ROLL_BACK", "error", 1000)
        assert [(each.kind, each.differs) for each in found.decisions] == [("rollback", [])]
        other = await ask_for(run_id="run1", plan={**PLAN, "slo": {"error": {"allowed": 0.8}}})
        what_if = msgspec.json.decode(other.content, type=admin.Replay)
        assert what_if.final is not None
        assert (what_if.same, what_if.other_plan, what_if.final.verdict) == (None, "demo", "HOLD")
        refusals = [
            (await ask_for(run_id="none"), 404, "no_run"),
            (await ask_for(run_id="run1", plan={**PLAN, "preset": "default"}), 422, "plan"),
            (await ask_for(run_id="run1", plan={**PLAN, "steps": []}), 422, "plan"),
            (await ask_for(run_id="run1", at=1.0), 404, "not_recorded"),
            (await ask_for(), 422, "request"),
        ]
        for refused, status, reason in refusals:
            assert (refused.status_code, refused.json()["reason"]) == (status, reason)
            assert refused.json()["problems"] or refused.json()["error"]
        assert (s.conductor.rollout, len(s.store.lines)) == before

    ask(scenario)


def test_a_replay_from_elsewhere_needs_the_token_and_from_another_site_never_works() -> None:
    """It has a body, so the rules against cross-site requests are those of a write."""

    async def away(client: httpx.AsyncClient, s: Stage) -> None:
        answer = await client.post(admin.REPLAY_PATH, content=b"{}", headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["reason"]) == (401, "no_token")

    async def cross(client: httpx.AsyncClient, s: Stage) -> None:
        foreign = {"content-type": "application/json", "origin": "http://evil.example"}
        assert (await client.post(admin.REPLAY_PATH, content=b"{}", headers=foreign)).status_code == 403
        form = {"content-type": "text/plain"}
        assert (await client.post(admin.REPLAY_PATH, content=b"{}", headers=form)).status_code == 415

    ask(away, loopback=False)
    ask(cross)
