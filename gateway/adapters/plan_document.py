"""Turns a plan document (parsed YAML or JSON) into a core plan. Every problem is reported at once.

The preset fills what the document leaves out. ``cautious`` bets on windows of a minute alone: slower, for arms whose
own bad spells last longer than ten seconds. ``demo`` runs the decision rule ten times faster on looser limits; it is
for a demonstration on a small machine and never for production, and every verdict of it says so.
"""

import hashlib
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gateway.core.compare.defaults import BOUNDS, policy_with
from gateway.core.compare.policy import ComparePolicy, PolicyError, policy_of
from gateway.core.identity import MAY_DIFFER
from gateway.core.outlook import min_horizon_s
from gateway.core.plan import (
    DEFAULT_ALLOWED,
    TIMED,
    MetricId,
    MetricLimit,
    ParityPolicy,
    Plan,
    PlanError,
    RuleParameters,
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Share = Annotated[float, Field(ge=0, le=100)]
Allowed = Annotated[float, Field(ge=1e-6, lt=0.9)]
Seconds = Annotated[float, Field(gt=0, le=7 * 86400)]


def _may_differ(field: str) -> str:
    if field not in MAY_DIFFER:
        raise ValueError(f"is no identity field that may differ; {', '.join(MAY_DIFFER)}")
    return field


class LatencyLimit(_Strict):
    """At most ``allowed`` of the answers, first events or gaps of a stream may take longer than ``limit_ms``."""

    limit_ms: Annotated[float, Field(ge=0.01, le=3_600_000)]
    allowed: Allowed | None = None


class RateLimit(_Strict):
    allowed: Allowed | None = None


class RecompileLimit(_Strict):
    limit: Annotated[int, Field(ge=0, le=1000)] = 0


class Slo(_Strict):
    """A metric that is not named is not judged; error, refused and recompile always are."""

    lat_p50: LatencyLimit | None = None
    lat_p95: LatencyLimit | None = None
    lat_p99: LatencyLimit | None = None
    error: RateLimit = RateLimit()
    refused: RateLimit = RateLimit()
    parity: RateLimit | None = None
    ttft: LatencyLimit | None = None
    itl: LatencyLimit | None = None
    stream_broken: RateLimit | None = None
    recompile: RecompileLimit = RecompileLimit()


class Parity(_Strict):
    cosine_min: Annotated[float, Field(ge=-1, le=1)]
    max_abs: Annotated[float, Field(gt=0)] | None = None


class Compare(_Strict):
    """A policy for each kind of content. ``defaults`` fills the kinds that are not written down."""

    defaults: Literal["float32", "bfloat16"] | None = None
    kinds: dict[str, dict[str, Any]] = {}


class Copies(_Strict):
    """``share`` in percent of baseline-served requests."""

    share: Share = 0
    soak: bool = False


class NoiseFloor(_Strict):
    """``pairs`` of the baseline with itself are compared in the first step; 0: none."""

    pairs: int


class Strata(_Strict):
    """Classes of requests by the size of their body; ``edges`` rising, in bytes or in tokens of ``bytes_per_token``."""

    by: Literal["body_bytes", "tokens"]
    edges: Annotated[list[int], Field(min_length=1)]
    bytes_per_token: Annotated[float, Field(gt=0, le=64)] | None = None

    def in_bytes(self) -> tuple[int, ...]:
        """A token is an estimate: classes come from the request alone, and the gateway has no tokenizer."""
        return tuple(round(edge * (self.bytes_per_token or 1.0)) for edge in self.edges)


class PlanDocument(_Strict):
    """Percent for weights and shares, seconds for durations.

    max_step_s, residual: follow from the traffic unless they are written down.
    """

    apiVersion: Literal["canary/v1"]
    kind: Literal["Plan"]
    rollout: Annotated[str, Field(min_length=1)]
    run_kind: Literal["migration", "upgrade"] = "migration"
    preset: Literal["default", "cautious", "demo"] = "default"
    steps: Annotated[list[Share], Field(min_length=1, max_length=32)]
    slo: Slo
    relative_gate: Annotated[float, Field(gt=1, le=10)] | None = None
    parity: Parity | None = None
    compare: Compare | None = None
    noise_floor: NoiseFloor | None = None
    copies: Copies = Copies()
    strata: Strata | None = None
    min_step_s: Seconds | None = None
    max_step_s: Seconds | None = None
    min_events: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    min_windows: Annotated[int, Field(ge=1, le=100_000)] | None = None
    bake_s: Annotated[float, Field(ge=0, le=30 * 86400)] | None = None
    residual: Annotated[float, Field(ge=0.01, le=5)] | None = None
    declared_differences: list[Annotated[str, AfterValidator(_may_differ)]] = []


_DEFAULT: dict[str, Any] = {
    "min_step_s": 300.0,
    "max_step_s": 3600.0,
    "min_events": 200,
    "min_windows": 20,
    "bake_s": 3600.0,
}
PRESETS: dict[str, dict[str, Any]] = {
    "default": _DEFAULT,
    "cautious": _DEFAULT,
    "demo": {"min_step_s": 15.0, "max_step_s": 60.0, "min_events": 80, "min_windows": 12, "bake_s": 15.0},
}
RULES = {
    "default": RuleParameters(),
    "cautious": RuleParameters(cautious=True),
    "demo": RuleParameters(window_s=1.0),
}
MOST_STRETCH_S = 86400.0
"""A step whose length the plan leaves open may last a day where traffic is thin, in windows of 10 s."""
NOISE_PAIRS = {"default": 200, "cautious": 200, "demo": 0}
"""At 5 % of the baseline's requests, 200 pairs come in about 7 min at 10 requests a second. When all agree, at most
1.5 % of all such pairs disagree, with 95 % confidence. The demo's steps are too short for them.
"""
STEP_TIMES_EXPECTED = 3.0
"""A healthy step is expected to take up to this many times its minimum before the evidence is complete."""


def parse_plan(document: dict[str, Any], rollout: str) -> tuple[Plan, str]:
    """The plan and its digest (16 hex digits). Raises PlanError with every problem."""
    try:
        parsed = PlanDocument.model_validate(document)
    except ValidationError as error:
        raise PlanError(_describe(error)) from error
    problems = []
    if parsed.rollout != rollout:
        problems.append(f"rollout: '{parsed.rollout}' is not this gateway's; it carries '{rollout}'")
    policy, faults = _policy(parsed.compare)
    problems += [*faults, *_idle(parsed)]
    try:
        plan = _build(parsed, policy)
    except PlanError as error:
        raise PlanError([*problems, *error.problems]) from error
    if problems:
        raise PlanError(problems)
    return plan, hashlib.blake2b(msgspec.json.encode(plan), digest_size=8).hexdigest()


def _build(parsed: PlanDocument, policy: ComparePolicy | None) -> Plan:
    given = {name: value for name in PRESETS[parsed.preset] if (value := getattr(parsed, name)) is not None}
    durations = {**PRESETS[parsed.preset], **given}
    demo = parsed.preset == "demo"
    expected = durations["min_step_s"] * STEP_TIMES_EXPECTED * len(parsed.steps) + durations["bake_s"]
    rule = replace(RULES[parsed.preset], relative=parsed.relative_gate)
    scale = rule.window_s / RuleParameters().window_s
    noise_pairs = NOISE_PAIRS[parsed.preset] if parsed.slo.parity is not None else 0
    if parsed.noise_floor is not None:
        noise_pairs = parsed.noise_floor.pairs
    parity = None
    if parsed.parity is not None:
        parity = ParityPolicy(cosine_min=parsed.parity.cosine_min, max_abs=parsed.parity.max_abs)
    return Plan(
        rollout=parsed.rollout,
        kind=parsed.run_kind,
        steps=tuple(round(share * 100) for share in parsed.steps),
        metrics=_metrics(parsed.slo),
        recompile_limit=parsed.slo.recompile.limit,
        parity=parity,
        compare=None if policy is None else policy.canonical_text(),
        copies=round(parsed.copies.share * 100),
        soak=parsed.copies.soak,
        horizon_s=max(min_horizon_s(rule), expected),
        stretch_s=MOST_STRETCH_S * scale if parsed.max_step_s is None else None,
        control_at_full=not demo or parsed.residual is not None,
        residual=None if parsed.residual is None else round(parsed.residual * 100),
        declared_differences=tuple(parsed.declared_differences),
        preset=parsed.preset,
        rule=rule,
        strata=() if parsed.strata is None else parsed.strata.in_bytes(),
        noise_pairs=noise_pairs,
        **durations,
    )


def _idle(parsed: PlanDocument) -> list[str]:
    """What is written down and would do nothing, though whoever wrote it counts on it."""
    problems = []
    if parsed.slo.parity is None and (parsed.parity is not None or parsed.compare is not None):
        problems.append("slo.parity: missing; parity and compare say when answers are equal, and nothing is held to it")
    if parsed.residual is not None and parsed.steps[-1] != 100:
        problems.append(
            f"residual: {parsed.residual:g} is for a step at 100 percent, and steps end at {parsed.steps[-1]:g}"
        )
    if parsed.strata is not None and (parsed.strata.by == "tokens") is (parsed.strata.bytes_per_token is None):
        given = parsed.strata.bytes_per_token
        problems.append(
            f"strata.bytes_per_token: {given} with by: {parsed.strata.by}; tokens need it, body_bytes have none"
        )
    return problems


def _policy(compare: Compare | None) -> tuple[ComparePolicy | None, list[str]]:
    """The policy, and what is wrong with it; then one that stands in for it, so that the other problems are found."""
    if compare is None:
        return None, []
    try:
        return _written_policy(compare), []
    except PolicyError as error:
        return policy_with(BOUNDS["float32"]), [f"compare.{problem}" for problem in error.problems]


def _written_policy(compare: Compare) -> ComparePolicy:
    written = policy_of({"kinds": compare.kinds}) if compare.kinds or compare.defaults is None else None
    if compare.defaults is None:
        assert written is not None
        return written
    default = policy_with(BOUNDS[compare.defaults])
    if written is None:
        return default
    named = dict(written.kinds)
    kinds = {kind: named.get(kind, policy) for kind, policy in default.kinds}
    return ComparePolicy(kinds=tuple(kinds.items()), source=f"plan; the kinds it does not name: {default.source}")


def _metrics(slo: Slo) -> tuple[MetricLimit, ...]:
    limits = []
    for metric in MetricId:
        given: LatencyLimit | RateLimit | None = getattr(slo, str(metric))
        if given is None:
            continue
        allowed = given.allowed if given.allowed is not None else DEFAULT_ALLOWED[metric]
        limit_ms = given.limit_ms if metric in TIMED and isinstance(given, LatencyLimit) else None
        limits.append(MetricLimit(metric=metric, allowed=allowed, limit_ms=limit_ms))
    return tuple(limits)


def _describe(error: ValidationError) -> list[str]:
    problems = []
    for problem in error.errors(include_url=False):
        path = ".".join(str(part) for part in problem["loc"]) or "document"
        shown = "" if problem["type"] in ("missing", "extra_forbidden") else f"{problem['input']!r:.80}: "
        problems.append(f"{path}: {shown}{problem['msg']}")
    return problems
