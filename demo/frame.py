"""The live view as plain lines of at most 100 columns and 30 rows, and the one line for when there is no terminal."""

import textwrap
from typing import Final, Literal

from demo.arms import Arm
from demo.documents import STEPS
from demo.scene import Scene
from wire.admin import ArmView, Status, VerdictView
from wire.health import HealthBody

WIDTH: Final = 100
HEIGHT: Final = 30
_BAR: Final = 20
_LABEL: Final = 11

Style = Literal["title", "plain", "good", "bad", "dim"]
Line = tuple[str, Style]

_VERDICT_STYLES: Final[dict[str, Style]] = {"ADVANCE": "good", "ROLL_BACK": "bad"}


def frame(scene: Scene) -> list[Line]:
    """The whole view. What does not fit is cut, never wrapped, so that nothing jumps."""
    lines = [*_head(scene), ("", "plain"), *_servers(scene)]
    if scene.status is not None:
        lines += [("", "plain"), *_canary(scene, scene.status)]
    lines += [("", "plain"), *_urls(scene)]
    return [(text[:WIDTH], style) for text, style in lines[:HEIGHT]]


def one_line(scene: Scene) -> str:
    """``canary  58 s  stepping 10 %  HOLD not_proven  E 0.6 of 20  ...``."""
    parts = [f"{scene.phase}  {scene.now:.0f} s"]
    status = scene.status
    if status is None:
        parts += [f"{role} {_progress(body)}" for role, body in scene.health.items()]
        return "  ".join(parts)
    parts.append(f"{status.state} {status.weight / 100:g} %")
    if status.verdict is not None:
        verdict = status.verdict
        parts.append(f"{verdict.verdict} {verdict.reason} E {verdict.evidence:.2g} of {verdict.bar:g}")
    parts += [f"{arm.name} {arm.live}+{arm.copies} p95 {_ms(arm.recent.p95 or arm.latency.p95)}" for arm in status.arms]
    parts.append(f"pairs {status.parity.pairs} min cos {_cosine(status.parity.min_cosine)}")
    if scene.load is not None:
        parts.append(f"sent {scene.load.sent} failed {scene.load.failures}")
    if scene.fault_at is not None:
        parts.append(f"fault for {scene.now - scene.fault_at:.0f} s")
    return "  ".join(parts)


def _head(scene: Scene) -> list[Line]:
    turn = f"{scene.turn}   " if scene.turn else ""
    title = f"tpu-canary demo   {turn}{scene.scenario.name}: {scene.scenario.title}"
    clock = f"{scene.phase}   {int(scene.now) // 60}:{int(scene.now) % 60:02d}"
    return [(f"{title:<{WIDTH - len(clock)}}{clock}", "title")]


def _servers(scene: Scene) -> list[Line]:
    lines: list[Line] = []
    for arm in scene.arms.both:
        body = scene.health.get(arm.role)
        state = _progress(body) if body is not None else _not_yet(scene, arm)
        lines.append((f"{arm.role:<{_LABEL}}{arm.name}  {arm.device} {arm.dtype}  {state}", _health_style(body)))
        lines.append((f"{'':<{_LABEL}}{arm.label}", "dim"))
    return lines


def _not_yet(scene: Scene, arm: Arm) -> str:
    """Servers start one after the other, in the order in which they are listed."""
    both = scene.arms.both
    before = [other.role for other in both[: both.index(arm)]]
    waits_for = [role for role in before if role not in scene.health or scene.health[role].state != "ready"]
    return f"starts once the {waits_for[0]} is warm" if waits_for else "starting"


def _progress(body: HealthBody) -> str:
    if body.state == "ready":
        return f"ready, {body.buckets} buckets in {body.cold_s or body.elapsed_s:.1f} s ({_sources(body)})"
    if body.state == "warming" and body.buckets:
        current = f", now {body.current}" if body.current else ""
        return f"warm-up {bar(body.bucket / body.buckets)} bucket {body.bucket} of {body.buckets}{current}"
    return f"{body.state} {body.elapsed_s:.0f} s" + (f": {body.detail}" if body.detail else "")


def _sources(body: HealthBody) -> str:
    return ", ".join(sorted({report.source for report in body.warm_up})) or "-"


def _health_style(body: HealthBody | None) -> Style:
    if body is None or body.state not in ("ready", "failed", "stopped"):
        return "plain"
    return "good" if body.state == "ready" else "bad"


def _canary(scene: Scene, status: Status) -> list[Line]:
    limit = f"   L {scene.sizing.limit_ms:g} ms   load {scene.sizing.rate:g}/s" if scene.sizing else ""
    step = ""
    if status.run is not None:
        step = f"   step {status.run.step + 1}/{len(STEPS)}, {max(0.0, status.at - status.run.step_since):.0f} s"
    weight = f"{bar(status.weight / 10000)} {status.weight / 100:g} %"
    lines: list[Line] = [
        (f"{'canary':<{_LABEL}}{weight}   {status.state}{step}{limit}", "title"),
        *_arms(status.arms),
        (_parity(status), "bad" if status.parity.bad else "plain"),
        _load(scene),
    ]
    if status.verdict is not None:
        lines += _verdict(status.verdict)
    return [*lines, *_fault(scene)]


def _arms(arms: list[ArmView]) -> list[Line]:
    head = f"{'':<{_LABEL}}{'live':>7}{'copies':>7}{'failed':>7}{'refused':>8}{'unavail':>8}"
    lines: list[Line] = [(f"{head}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}   recent p95", "dim")]
    for arm in arms:
        counts = f"{arm.live:>7}{arm.copies:>7}{arm.failed:>7}{arm.refused:>8}{arm.unavailable:>8}"
        times = "".join(f"{_ms(ms):>9}" for ms in (arm.latency.p50, arm.latency.p95, arm.latency.p99))
        note = "" if arm.ready else "  NOT READY"
        style: Style = "plain" if arm.ready else "bad"
        lines.append((f"{arm.name:<{_LABEL}}{counts}{times}{_ms(arm.recent.p95):>13}{note}", style))
    return lines


def _parity(status: Status) -> str:
    parity = status.parity
    return (
        f"{'parity':<{_LABEL}}{parity.pairs} pairs, {parity.bad} bad, min cosine {_cosine(parity.min_cosine)},"
        f" {parity.shed} copies shed"
    )


def _load(scene: Scene) -> Line:
    load = scene.load
    if load is None:
        return f"{'clients':<{_LABEL}}-", "plain"
    text = (
        f"{'clients':<{_LABEL}}sent {load.sent} of {load.planned}, failures {load.failures}, failed over"
        f" {load.failovers}, wrong answers {load.wrong_answers} of {load.compared} compared"
    )
    return text, "bad" if load.failures else "plain"


def _verdict(verdict: VerdictView) -> list[Line]:
    style = _VERDICT_STYLES.get(verdict.verdict, "plain")
    full = min(1.0, verdict.evidence / verdict.bar) if verdict.bar else 0.0
    lines: list[Line] = [
        (
            f"{'evidence':<{_LABEL}}{bar(full)} E {verdict.evidence:.3g} of {verdict.bar:g} (against the candidate)",
            style,
        )
    ]
    said = _wrapped(f"{verdict.verdict} {verdict.reason}: {verdict.text}")
    lines += [(f"{'' if n else 'verdict':<{_LABEL}}{text}", style) for n, text in enumerate(said)]
    soon = "" if verdict.to_go_s is None else f"about {verdict.to_go_s:.0f} s more at this traffic: "
    missing = _wrapped(soon + "; ".join(verdict.missing))
    return lines + [(f"{'' if n else 'missing':<{_LABEL}}{text}", "plain") for n, text in enumerate(missing)]


def _wrapped(text: str) -> list[str]:
    """At most three lines; that something was left out is shown."""
    return textwrap.wrap(text, WIDTH - _LABEL, max_lines=3, placeholder=" ...")


def _fault(scene: Scene) -> list[Line]:
    if scene.scenario.fault == "none":
        return [(f"{'fault':<{_LABEL}}none in this scenario", "dim")]
    begun = scene.fault_at is not None
    lead = f"for {scene.now - (scene.fault_at or 0.0):.0f} s" if begun else "after 5 s at 10 % or more"
    style: Style = "bad" if begun else "dim"
    said = _wrapped(f"{lead}: {scene.scenario.fault_text}")
    return [(f"{'' if n else 'fault':<{_LABEL}}{text}", style) for n, text in enumerate(said)]


def _urls(scene: Scene) -> list[Line]:
    return [(f"{name:<14}{url}", "dim") for name, url in scene.urls.items()]


def bar(share: float) -> str:
    """``[#####---------------]``: readable without colour."""
    full = round(_BAR * min(1.0, max(0.0, share)))
    return f"[{'#' * full}{'-' * (_BAR - full)}]"


def label_of(arm: Arm) -> str:
    """How an arm is named in the report, with what it is not."""
    return f"{arm.name} ({arm.device}, {arm.dtype}; {arm.label})"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _cosine(value: float | None) -> str:
    return "-" if value is None else f"{value:.6f}"
