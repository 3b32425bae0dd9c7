"""The rollout as the admin API shows it: core values in, wire structs out."""

from dataclasses import asdict

from gateway.core.explain import Case, Explained
from gateway.core.histogram import Histogram
from gateway.core.outlook import told
from gateway.core.run import Outcome, Rollout, Run, State
from gateway.core.types import Count, Lane, Role
from gateway.core.verdict import MetricRow, Verdict
from gateway.ports import JournalLine
from gateway.runtime.analyst import Analyst
from gateway.runtime.books import NOISE
from gateway.runtime.conductor import Applied, Conductor
from gateway.runtime.counted import live_requests
from gateway.runtime.figures import noise_figures, paired_figures
from gateway.runtime.playback import Seen
from gateway.runtime.replay import Replayed
from gateway.runtime.replica import Replica
from wire import admin

NEVER_COMPARED = frozenset(
    {"overflow", "overflow_bytes", "busy", "saturated", "unavailable", "stale", "shed", "pair_dropped"}
)
"""Fates of a sampled copy that led to no pair for want of room, of an arm, or because the epoch was over."""


def status(conductor: Conductor, analyst: Analyst, replica: Replica, *, name: str) -> admin.Status:
    """Everything about the rollout now. After a run has ended its last figures are shown, marked by the state."""
    rollout, now = conductor.rollout, conductor.clock.wall()
    final = analyst.final if rollout.state is State.ROLLED_BACK else None
    verdict = analyst.verdict or (final.verdict if final else None)
    waiting = conductor.waiting_for()
    return admin.Status(
        rollout=name,
        replica="0",
        at=now,
        state=rollout.state.value,
        weight=rollout.weight,
        epoch=rollout.epoch,
        arms=[_arm(conductor, analyst, replica, role) for role in Role],
        workers=_workers(replica),
        store=conductor.store_detail,
        snapshot_version=replica.snapshot.version,
        run=run_view(rollout, analyst) if rollout.run is not None else None,
        verdict=verdict_view(verdict, now) if verdict is not None else None,
        parity=_parity(analyst, final is not None),
        paired=_paired(analyst, final is not None),
        noise=_noise(analyst, final is not None),
        control={
            "waiting_for": waiting,
            "judge_age_s": round(now - analyst.last_look, 3),
            "late_events": analyst.evidence.late_events,
            "incomplete_windows": analyst.evidence.incomplete_windows,
            "evidence_left_out": analyst.tape.left_out,
            "copies": analyst.copies,
        },
    )


def _arm(conductor: Conductor, analyst: Analyst, replica: Replica, role: Role) -> admin.ArmView:
    arm = conductor.arm(role)
    health = conductor.health[arm.name]
    identity = health.identity or {}
    final = analyst.final if conductor.rollout.state is State.ROLLED_BACK else None
    evidence, latencies = (final.evidence, final.latencies) if final else (analyst.evidence, analyst.latencies)
    lanes = (Lane.LIVE, Lane.COPY) if role is Role.CANDIDATE else (Lane.LIVE,)

    def both(count: Count) -> int:
        return sum(evidence.total(role, lane, count) for lane in lanes)

    scores = [w.breaker[0 if role is Role.BASELINE else 1] for w in replica.workers.values()]
    return admin.ArmView(
        name=arm.name,
        role=role.value,
        url=f"http://{arm.host}:{arm.port}{arm.base_path}",
        ready=health.ready,
        detail=health.detail,
        emulated=identity.get("emulated"),
        device=identity.get("device"),
        identity=identity.get("identity_digest"),
        live=live_requests(evidence, role),
        copies=evidence.total(role, Lane.COPY, Count.OK, Count.FAILED) if role is Role.CANDIDATE else 0,
        failed=both(Count.FAILED),
        refused=both(Count.REFUSED),
        unavailable=both(Count.UNAVAILABLE),
        compiles=both(Count.COMPILES),
        breaker=max(scores, default=0.0),
        latency=latency_view(latencies.since_start(role)),
        recent=latency_view(analyst.latencies.recent(role, conductor.clock.wall())),  # of now, whatever has ended
    )


def latency_view(histogram: Histogram) -> admin.LatencyView:
    """Milliseconds, None without answers."""

    def at(q: float) -> float | None:
        value = histogram.quantile(q)
        return None if value is None else round(value * 1000, 2)

    return admin.LatencyView(count=histogram.count, p50=at(0.5), p95=at(0.95), p99=at(0.99))


def run_view(rollout: Rollout, analyst: Analyst) -> admin.RunView:
    run = rollout.run
    assert run is not None, "asked only with a run"
    live, since = _live(run, analyst)
    return admin.RunView(
        run_id=run.run_id,
        rollout=run.plan.rollout,
        kind="upgrade" if run.plan.kind == "upgrade" else "migration",
        plan_digest=run.plan_digest,
        state=rollout.state.value,
        epoch=rollout.epoch,
        step=run.step,
        steps=list(run.plan.steps),
        weight=rollout.weight,
        started_at=run.started_at,
        step_since=run.step_since,
        reason=run.reason,
        who=run.who,
        outcome=str(run.outcome) if run.outcome else None,
        metric=run.metric,
        rule=run.rule,
        decided_weight=run.decided_weight,
        decided_at=run.decided_at,
        live_candidate_requests=live or 0,
        live_complete=live is not None and since == run.judged_from,
        overrides=[f"step {each.step + 1} by {each.who}" for each in run.overrides],
        time_to_zero_ms=_ms(run.time_to_zero_s),
        outlook=_outlook(run),
        longest_step_s=run.longest_step_s,
    )


def _outlook(run: Run) -> admin.OutlookView | None:
    found = run.outlook
    if found is None:
        return None
    return admin.OutlookView(rate=found.rate, step_s=list(found.step_s), horizon_s=found.horizon_s, text=told(run))


def _live(run: Run, analyst: Analyst) -> tuple[int | None, float | None]:
    """(Live requests to the candidate, since when counted): now until a rollback, after it as they were then."""
    if run.outcome in (None, Outcome.PROMOTED):
        return live_requests(analyst.evidence, Role.CANDIDATE), analyst.counted_from
    return run.live_candidate_requests, run.live_counted_from


def verdict_view(verdict: Verdict, now: float) -> admin.VerdictView:
    return admin.VerdictView(
        verdict=verdict.name.value,
        reason=verdict.reason,
        text=verdict.text,
        metric=str(verdict.metric) if verdict.metric else None,
        at=now,
        evidence=verdict.evidence,
        bar=verdict.bar,
        metrics=[_row(row) for row in verdict.rows],
        missing=list(verdict.missing),
        notes=list(verdict.notes),
        to_go_s=verdict.to_go_s,
        strata=[
            admin.StratumView(name=each.name, evidence=each.evidence, metrics=[_row(row) for row in each.rows])
            for each in verdict.strata
        ],
        stratum=verdict.stratum,
    )


def _row(row: MetricRow) -> admin.MetricView:
    return admin.MetricView(
        metric=str(row.metric),
        allowed=row.allowed,
        limit_ms=row.limit_ms,
        candidate_events=row.n_c,
        candidate_bad=row.k_c,
        baseline_events=row.n_b,
        baseline_bad=row.k_b,
        evidence=row.evidence,
        bar=row.bar,
        proof=row.proof,
        proof_bar=row.proof_bar,
        passes=row.passes,
    )


def _parity(analyst: Analyst, ended: bool) -> admin.ParityView:
    final = analyst.final if ended else None
    stats = final.parity if final else analyst.parity
    not_compared = final.not_compared if final else analyst.pairs.not_compared
    return admin.ParityView(
        pairs=stats.pairs,
        bad=stats.bad,
        min_cosine=stats.min_cosine,
        max_abs=stats.max_abs,
        shed=sum(n for key, n in analyst.copies.items() if _is_shed(*key.split(":"))),
        worst=stats.sentence(),
        fields=[
            admin.FieldView(
                content=content,
                field=field,
                pairs=seen.pairs,
                bad=seen.bad,
                kinds={str(kind): n for kind, n in sorted(seen.kinds.items())},
                figures={str(figure): value for figure, value in sorted(seen.figures.items())},
            )
            for (content, field), seen in sorted(stats.fields.items())
        ],
        not_compared={str(why): n for why, n in sorted(not_compared.items())},
    )


def _is_shed(direction: str, fate: str) -> bool:
    """What the noise floor lost is no pair of the two arms."""
    return direction != NOISE and fate in NEVER_COMPARED


def _paired(analyst: Analyst, ended: bool) -> admin.PairedView:
    shown = analyst.final if ended and analyst.final else analyst
    found = paired_figures(shown.paired, shown.evidence.width_s)
    return admin.PairedView(**asdict(found), text=found.sentence)


def _noise(analyst: Analyst, ended: bool) -> admin.NoiseView:
    found = noise_figures(analyst.final.floor if ended and analyst.final else analyst.floor)
    return admin.NoiseView(
        wanted=found.wanted, pairs=found.pairs, bad=found.bad, in_noise=found.in_noise, text=found.sentence
    )


def _workers(replica: Replica) -> list[admin.WorkerView]:
    now = replica.clock.monotonic()
    return [
        admin.WorkerView(
            name=name,
            pid=worker.pid,
            acknowledged_version=worker.acknowledged,
            age_s=round(now - worker.heard_at, 3),
            in_flight=sum(worker.in_flight),
        )
        for name, worker in sorted(replica.workers.items())
    ]


def explanation(case: Case, explained: Explained) -> admin.Explanation:
    rollout, run, verdict = case.rollout, case.rollout.run, case.verdict
    ended = run is not None and run.outcome is not None
    by_judge = verdict is not None and not (run is not None and run.rule in ("person", "configuration"))
    blamed = (run.metric if ended and run is not None else None) or (verdict.metric if verdict and not ended else None)
    return admin.Explanation(
        at=case.now,
        state=rollout.state.value,
        weight=rollout.weight,
        headline=explained.headline,
        facts=[admin.Fact(label=fact.label, text=fact.text) for fact in explained.facts],
        next=explained.next,
        run_id=run.run_id if run else None,
        verdict=verdict.name.value if verdict is not None and by_judge else None,
        outcome=str(run.outcome) if run is not None and run.outcome else None,
        metric=str(blamed) if blamed else None,
        rule=run.rule if run else None,
        shapes=list(explained.shapes),
    )


def journal_line(line: JournalLine) -> admin.JournalLine:
    return admin.JournalLine(
        seq=line.seq,
        at=line.at,
        run_id=line.run_id,
        epoch=line.epoch,
        kind=line.kind,
        who=line.who,
        text=line.text,
        data=line.data,
    )


def command_result(applied: Applied) -> admin.CommandResult:
    return admin.CommandResult(
        state=applied.rollout.state.value,
        epoch=applied.rollout.epoch,
        weight=applied.rollout.weight,
        detail=applied.text,
        acknowledged=applied.acknowledged,
        missing=applied.missing,
        time_to_zero_ms=_ms(applied.time_to_zero_s),
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def replay(found: Replayed) -> admin.Replay:
    """A run, judged again."""
    return admin.Replay(
        run_id=found.run.run_id,
        plan_digest=found.run.plan_digest,
        other_plan=found.plan.preset if found.plan is not None else None,
        windows=found.windows,
        changes=[_replayed(seen) for seen in found.changes],
        final=_replayed(found.final) if found.final is not None else None,
        decisions=[
            admin.ReplayedDecision(
                at=decision.at,
                kind=decision.kind,
                text=decision.text,
                differs=None if decision.differs is None else list(decision.differs),
            )
            for decision in found.decisions
        ],
        same=found.same,
        holes=found.holes,
        notes=found.notes,
        left_out=found.left_out,
    )


def _replayed(seen: Seen) -> admin.ReplayedVerdict:
    verdict = seen.verdict
    return admin.ReplayedVerdict(
        at=seen.at,
        weight=seen.weight,
        verdict=verdict.name.value,
        reason=verdict.reason,
        metric=str(verdict.metric) if verdict.metric else None,
        evidence=verdict.evidence,
        text=verdict.text,
    )
