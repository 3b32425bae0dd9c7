"""The status as a tired person reads it: one line that says it all, then the reasons, then the figures."""

from ctl.layout import clock, figure, paragraph, percent, printable, span, table
from wire.admin import ArmView, MetricView, RunView, Status, StratumView, VerdictView


def one_line(status: Status) -> str:
    """``stepping  10 %  HOLD not_proven  step 2/4 since 14 s  E 0.6 of 20``."""
    parts = [status.state, percent(status.weight)]
    verdict, run = status.verdict, status.run
    if verdict is not None:
        parts.append(f"{verdict.verdict} {verdict.reason}" + (f" {verdict.metric}" if verdict.metric else ""))
    if run is not None and run.outcome is None:
        parts.append(f"step {run.step + 1}/{len(run.steps)} since {span(status.at - run.step_since)}")
    if run is not None and run.outcome is not None:
        parts.append(_outcome(run))
    if verdict is not None:
        parts.append(f"E {figure(verdict.evidence, 2)} of {figure(verdict.bar, 3)}")
    return "  ".join(parts)


def full(status: Status) -> str:
    """All of it, as wide as the terminal, at most 100 columns. Nothing in it steers the terminal."""
    blocks = [
        [one_line(status)],
        _verdict(status.verdict) if status.verdict else [],
        _arms(status.arms),
        _metrics(status.verdict.metrics) if status.verdict and status.verdict.metrics else [],
        _strata(status.verdict.strata) if status.verdict and status.verdict.strata else [],
        _facts(status),
    ]
    return printable("\n\n".join("\n".join(block) for block in blocks if block))


def _outcome(run: RunView) -> str:
    at = f" at {percent(run.decided_weight)}" if run.decided_weight is not None else ""
    cause = f" for {run.metric}" if run.metric else ""
    rule = f" by {run.rule}" if run.rule else ""
    overridden = f" by override ({', '.join(run.overrides)})" if run.overrides else ""
    return printable(f"{run.outcome}{at}{cause}{rule}{overridden}")


def _verdict(verdict: VerdictView) -> list[str]:
    lines = paragraph("Verdict", f"{verdict.verdict}: {verdict.text}")
    for number, missing in enumerate(verdict.missing):
        lines += paragraph("" if number else "Missing", missing)
    if verdict.to_go_s is not None:
        lines += paragraph("", f"all of it in about {span(verdict.to_go_s)}, if traffic and answers stay as they are")
    for number, note in enumerate(verdict.notes):
        lines += paragraph("" if number else "Note", note)
    return lines


def _arms(arms: list[ArmView]) -> list[str]:
    heads = ("Arm", "Role", "Ready", "Device", "Live", "Copies", "Failed", "Refused", "Unavail", "p50 ms", "p95", "p99")
    rows = [
        (
            arm.name,
            arm.role,
            "yes" if arm.ready else "NO",
            (arm.device or "-") + ("*" if arm.emulated else ""),
            *(str(number) for number in (arm.live, arm.copies, arm.failed, arm.refused, arm.unavailable)),
            *(figure(ms, 3) for ms in (arm.latency.p50, arm.latency.p95, arm.latency.p99)),
        )
        for arm in arms
    ]
    lines = table([(head, "<" if place < 4 else ">") for place, head in enumerate(heads)], rows)
    if any(arm.emulated for arm in arms):
        lines += paragraph("", "* emulated: neither the speed nor the arithmetic of the real device", indent=2)
    for arm in arms:
        if not arm.ready and arm.detail:
            lines += paragraph("", f"{arm.name}: {arm.detail}", indent=2)
    return lines


def _metrics(metrics: list[MetricView]) -> list[str]:
    heads = ("Metric", "Limit", "Candidate", "Baseline", "Allowed", "E", "of", "Proof", "of", "Passes")
    rows = [
        (
            metric.metric,
            "-" if metric.limit_ms is None else f"{metric.limit_ms:g} ms",
            f"{metric.candidate_bad} bad of {metric.candidate_events}",
            f"{metric.baseline_bad} bad of {metric.baseline_events}",
            f"{100 * metric.allowed:g} %",
            figure(metric.evidence, 2),
            figure(metric.bar, 3),
            figure(metric.proof, 2),
            figure(metric.proof_bar, 3),
            "yes" if metric.passes else "no",
        )
        for metric in metrics
    ]
    lines = table([(head, "<" if place in (0, 9) else ">") for place, head in enumerate(heads)], rows)
    said = "counts of the present step; E reaching its bar rolls back, proof reaching its bar passes"
    return lines + paragraph("", said, indent=2)


def _strata(strata: list[StratumView]) -> list[str]:
    """The same by class of requests. E is that of the class by itself; its metrics have a part of the whole's."""
    heads = ("Requests", "Metric", "Candidate", "Baseline", "Allowed", "E", "Proof", "Passes")
    rows = [
        (
            f"{stratum.name} (E {figure(stratum.evidence, 2)})" if number == 0 else "",
            metric.metric,
            f"{metric.candidate_bad} bad of {metric.candidate_events}",
            f"{metric.baseline_bad} bad of {metric.baseline_events}",
            f"{100 * metric.allowed:g} %",
            figure(metric.evidence, 2),
            figure(metric.proof, 2),
            "yes" if metric.passes else "no",
        )
        for stratum in strata
        for number, metric in enumerate(stratum.metrics)
    ]
    lines = table([(head, "<" if place in (0, 1, 7) else ">") for place, head in enumerate(heads)], rows)
    said = "shown, not required to pass; E of a class by itself at the warning holds the step"
    return lines + paragraph("", said, indent=2)


def _counts(of: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(of.items()))


def _facts(status: Status) -> list[str]:
    run, parity = status.run, status.parity
    lines: list[str] = []
    left_out = sum(parity.not_compared.values())
    if parity.pairs or parity.shed or left_out:
        lines += paragraph(
            "Parity",
            f"{parity.pairs} pairs, {parity.bad} bad, min cosine {figure(parity.min_cosine, 6)},"
            f" max abs {figure(parity.max_abs, 3)}, {parity.shed} copies shed"
            + (f", {left_out} not compared ({_counts(parity.not_compared)})" if left_out else "")
            + (f"; worst: {parity.worst}" if parity.worst else ""),
        )
    for field in parity.fields:
        if field.bad:
            kinds = _counts({kind: n for kind, n in field.kinds.items() if kind != "ok"})
            worst = ", ".join(f"{name} {value:.6g}" for name, value in field.figures.items())
            lines += paragraph(
                "Field",
                f"{field.field} of {field.content}: {field.bad} of {field.pairs} pairs differ ({kinds})"
                + (f"; worst: {worst}" if worst else ""),
            )
    if status.noise.text:
        lines += paragraph("Noise", status.noise.text.removeprefix("noise floor: "))
    if status.paired.text:
        lines += paragraph("Latency", status.paired.text)
    if run is not None:
        steps = " ".join(percent(step) for step in run.steps)
        lines += paragraph("Run", f"{run.run_id} of {run.rollout} ({run.kind}), plan {run.plan_digest}, steps {steps}")
        lines += paragraph("", f"started {clock(run.started_at)} by {printable(run.who)}: {printable(run.reason)}")
    if run is not None and run.outlook is not None and run.outcome is None:
        lines += paragraph("Expected", run.outlook.text)
        if run.longest_step_s is not None:
            lines += paragraph("", f"the present step may last {span(run.longest_step_s)}; then a person decides")
    if run is not None and run.outcome is not None:
        lines += paragraph("Outcome", _decided(run))
    workers = ", ".join(
        f"{w.name} pid {w.pid} snapshot {w.acknowledged_version} seen {w.age_s:.1f} s ago" for w in status.workers
    )
    lines += paragraph("Workers", f"{workers or 'none'}; newest snapshot {status.snapshot_version}")
    return lines + paragraph("Store", f"{status.store}, epoch {status.epoch}, replica {status.replica}")


def _decided(run: RunView) -> str:
    least = "" if run.live_complete else "at least "
    text = f"{_outcome(run)}; {least}{run.live_candidate_requests} live requests had gone to the candidate"
    if run.decided_at is not None:
        text += f"; decided {clock(run.decided_at)}"
    if run.time_to_zero_ms is not None:
        text += f"; weight 0 everywhere after {run.time_to_zero_ms:.0f} ms"
    return f"{text}. Why, and what to change: `canaryctl explain`"
