"""Plan documents: presets, percent to basis points, every problem at once."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.adapters.plan_document import parse_plan
from gateway.core.compare.policy import ContentKind, policy_of
from gateway.core.plan import STREAM, MetricId, PlanError

DEMO: dict[str, Any] = {
    "apiVersion": "canary/v1",
    "kind": "Plan",
    "rollout": "demo",
    "preset": "demo",
    "steps": [0, 10, 50, 100],
    "slo": {
        "lat_p95": {"limit_ms": 400, "allowed": 0.05},
        "error": {"allowed": 0.05},
        "refused": {"allowed": 0.05},
        "parity": {"allowed": 0.05},
        "recompile": {"limit": 0},
    },
    "parity": {"cosine_min": 0.99},
    "copies": {"share": 50, "soak": True},
    "declared_differences": ["dtype"],
}


def test_the_demo_preset_is_the_rule_ten_times_faster() -> None:
    """Durations, windows and floors of the preset; percent become basis points."""
    plan, digest = parse_plan(DEMO, "demo")
    assert plan.steps == (0, 1000, 5000, 10_000)
    assert (plan.copies, plan.soak, plan.control_at_full) == (5000, True, False)
    assert (plan.min_step_s, plan.max_step_s, plan.min_events, plan.min_windows, plan.bake_s) == (15, 60, 80, 12, 15)
    assert plan.rule.window_s == 1.0
    assert plan.horizon_s == 720.0
    assert {m.metric for m in plan.metrics} == {MetricId.LAT_P95, MetricId.ERROR, MetricId.REFUSED, MetricId.PARITY}
    assert len(digest) == 16


def test_the_default_preset_takes_the_measured_defaults_and_given_fields_win() -> None:
    """Without allowed rates the rule's defaults hold; error and refused are judged unasked."""
    document = {**DEMO, "preset": "default", "slo": {"lat_p99": {"limit_ms": 300}}, "parity": None, "min_step_s": 600}
    plan, _ = parse_plan(document, "demo")
    assert {str(m.metric): m.allowed for m in plan.metrics} == {"lat_p99": 0.01, "error": 0.003, "refused": 0.001}
    assert (plan.min_step_s, plan.rule.window_s, plan.control_at_full) == (600, 10.0, True)
    assert plan.horizon_s >= 7200


def test_length_of_a_step_and_residual_follow_the_traffic_unless_they_are_written() -> None:
    """What a plan says stands: the length is not stretched, and a residual keeps the control even in the demo."""
    plan, _ = parse_plan({**DEMO, "preset": "default"}, "demo")
    assert (plan.max_step_s, plan.stretch_s, plan.residual) == (3600.0, 86_400.0, None)
    demo, _ = parse_plan(DEMO, "demo")
    assert (demo.max_step_s, demo.stretch_s, demo.residual, demo.control_at_full) == (60.0, 8640.0, None, False)
    written, _ = parse_plan({**DEMO, "max_step_s": 60, "residual": 2.5}, "demo")
    assert (written.max_step_s, written.stretch_s) == (60.0, None)
    assert (written.residual, written.control_at_full) == (250, True)
    long, _ = parse_plan({**DEMO, "preset": "default", "min_step_s": 3000}, "demo")
    assert long.stretch_s == 86_400.0


@pytest.mark.parametrize("residual", [0, 5.1, "much"])
def test_a_residual_that_is_no_share_is_refused(residual: object) -> None:
    """The problem names the field, the value and what is allowed."""
    with pytest.raises(PlanError) as refused:
        parse_plan({**DEMO, "residual": residual}, "demo")
    assert any(problem.startswith(f"residual: {residual!r}: ") for problem in refused.value.problems)


def test_the_digest_follows_every_change() -> None:
    """Two plans that differ anywhere have different digests; the same plan always the same."""
    assert parse_plan(DEMO, "demo")[1] == parse_plan(dict(DEMO), "demo")[1]
    assert parse_plan({**DEMO, "max_step_s": 61}, "demo")[1] != parse_plan(DEMO, "demo")[1]


def test_strata_are_off_by_default_and_part_of_the_digest() -> None:
    """Edges are taken as they are written; a plan that tells requests apart is another plan."""
    plain, digest = parse_plan(DEMO, "demo")
    stratified, other = parse_plan({**DEMO, "strata": {"by": "body_bytes", "edges": [512, 4096]}}, "demo")
    assert (plain.strata, stratified.strata) == ((), (512, 4096))
    assert digest != other


def test_the_noise_floor_is_measured_where_parity_is_judged_and_not_in_the_demo() -> None:
    """What is written wins; 0 turns it off."""
    without = {**DEMO, "slo": {"error": {}}, "parity": None}
    for preset, document, pairs in (
        ("demo", DEMO, 0), ("default", DEMO, 200), ("cautious", DEMO, 200), ("default", without, 0),
    ):  # fmt: skip
        assert parse_plan({**document, "preset": preset}, "demo")[0].noise_pairs == pairs
    for preset in ("demo", "default"):
        for pairs in (0, 60):
            document = {**DEMO, "preset": preset, "noise_floor": {"pairs": pairs}}
            assert parse_plan(document, "demo")[0].noise_pairs == pairs


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"noise_floor": {"pairs": 5}}, "noise_floor.pairs: 5 must be 0 (off) or 20 to 2000"),
        ({"noise_floor": {"pairs": -20}}, "noise_floor.pairs: -20 must be"),
        ({"noise_floor": {"pairs": "many"}}, "noise_floor.pairs: 'many': "),
        ({"noise_floor": {}}, "noise_floor.pairs: "),
        ({"noise_floor": {"pairs": 60}, "slo": {"error": {}}, "parity": None}, "noise_floor.pairs: 60 without"),
    ],
)
def test_a_noise_floor_that_cannot_be_is_refused(change: dict[str, Any], problem: str) -> None:
    """With field, value and what is allowed."""
    with pytest.raises(PlanError) as refused:
        parse_plan({**DEMO, **change}, "demo")
    assert any(found.startswith(problem) for found in refused.value.problems), refused.value.problems


@pytest.mark.parametrize(
    ("strata", "problem"),
    [
        ({"by": "body_bytes", "edges": []}, "strata.edges: "),
        ({"by": "body_bytes"}, "strata.edges: "),
        ({"edges": [512]}, "strata.by: "),
        ({"by": "words", "edges": [512]}, "strata.by: 'words': Input should be 'body_bytes' or 'tokens'"),
        ({"by": "body_bytes", "edges": ["many"]}, "strata.edges.0: 'many': "),
        ({"by": "body_bytes", "edges": [512, 512]}, "strata.edges: [512, 512] must rise"),
        ({"by": "body_bytes", "edges": [0]}, "strata.edges: [0] must be 1 byte or more"),
        ({"by": "body_bytes", "edges": [1, 2, 3, 4, 5, 6, 7, 8]}, "strata.edges: 8 edges make 9 classes"),
        ({"by": "body_bytes", "edges": [512], "names": ["a"]}, "strata.names: "),
    ],
)
def test_strata_that_cannot_be_are_refused(strata: dict[str, Any], problem: str) -> None:
    """With field, value and what is allowed."""
    with pytest.raises(PlanError) as refused:
        parse_plan({**DEMO, "strata": strata}, "demo")
    assert any(found.startswith(problem) for found in refused.value.problems), refused.value.problems


def test_edges_in_tokens_are_an_estimate_from_the_size_of_the_body() -> None:
    """Nothing but the request decides its class, and nobody here has a tokenizer."""
    plan, _ = parse_plan({**DEMO, "strata": {"by": "tokens", "edges": [128, 1024], "bytes_per_token": 4.5}}, "demo")
    assert plan.strata == (576, 4608)


def test_every_problem_is_named_with_field_and_value() -> None:
    """Unknown fields, wrong types and values out of range are all reported in one refusal."""
    broken = {**DEMO, "stepz": 1, "steps": [0, 200], "copies": {"share": "many"}}
    with pytest.raises(PlanError) as refused:
        parse_plan(broken, "demo")
    text = " | ".join(refused.value.problems)
    assert len(refused.value.problems) == 3
    assert "stepz" in text
    assert "steps.1: 200" in text
    assert "copies.share: 'many'" in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rollout": "other"}, "not this gateway's"),
        ({"steps": [0]}, "never sends live traffic"),
        ({"steps": [10, 10]}, "rise"),
        ({"parity": None}, "parity: missing"),
        ({"slo": {"error": {}}}, "slo.parity: missing; parity and compare say"),
        ({"steps": [10, 50], "residual": 2}, "residual: 2 is for a step at 100 percent, and steps end at 50"),
        ({"strata": {"by": "tokens", "edges": [128]}}, "strata.bytes_per_token: None with by: tokens"),
        (
            {"strata": {"by": "body_bytes", "edges": [9], "bytes_per_token": 4}},
            "strata.bytes_per_token: 4.0 with by: body",
        ),
        ({"strata": {"by": "tokens", "edges": [9], "bytes_per_token": 0}}, "strata.bytes_per_token: 0: "),
        ({"copies": {"share": 0}}, "without a single pair"),
        ({"max_step_s": 10}, "max_step_s"),
        ({"min_events": 10**25}, "min_events"),
        ({"declared_differences": ["nope"]}, "no identity field"),
        ({"declared_differences": ["revision"]}, "no identity field"),
    ],
)
def test_vacuous_and_impossible_plans_are_refused(change: dict[str, Any], problem: str) -> None:
    """A plan that could never decide cannot be built."""
    with pytest.raises(PlanError, match=problem):
        parse_plan({**DEMO, **change}, "demo")


def test_the_cautious_preset_is_the_default_with_other_bets() -> None:
    """Durations and limits stay; only the bets are on windows of a minute, and the digest differs."""
    document = {**DEMO, "preset": "default"}
    default, digest = parse_plan(document, "demo")
    cautious, other = parse_plan({**document, "preset": "cautious"}, "demo")
    assert cautious.rule == replace(default.rule, cautious=True)
    assert replace(cautious, preset="default", rule=default.rule) == default
    assert digest != other


def compared(**compare: Any) -> dict[str, Any]:
    return {name: value for name, value in {**DEMO, "compare": compare}.items() if name != "parity"}


SCORES = {"fields": [{"path": "outputs.*", "rule": "top_k", "k": 5, "overlap_min": 0.8}]}


def test_a_policy_is_frozen_by_what_it_says() -> None:
    """The order of keys changes no digest, a bound does; the plan gives the policy back."""
    plan, digest = parse_plan(compared(kinds={"oip_infer": SCORES}), "demo")
    assert plan.parity is None
    assert plan.policy is not None
    assert [str(kind) for kind, _ in plan.policy.kinds] == ["oip_infer"]
    turned = {"fields": [dict(reversed(SCORES["fields"][0].items()))]}
    assert parse_plan(compared(kinds={"oip_infer": turned}), "demo")[1] == digest
    looser = {"fields": [{**SCORES["fields"][0], "overlap_min": 0.7}]}
    assert parse_plan(compared(kinds={"oip_infer": looser}), "demo")[1] != digest


def test_defaults_fill_the_kinds_that_are_not_written_down() -> None:
    """The written kind stays, the others come from the row of the dtype, and the source says so."""
    plan, _ = parse_plan(compared(defaults="bfloat16", kinds={"oip_infer": SCORES}), "demo")
    assert plan.policy is not None
    assert len(plan.policy.kinds) > 1
    assert plan.policy.of(ContentKind.INFER) == policy_of({"kinds": {"oip_infer": SCORES}}).of(ContentKind.INFER)
    assert "bfloat16" in plan.tolerance_source
    assert "not on TPU hardware" in plan.tolerance_source


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({**DEMO, "compare": {"defaults": "float32"}}, "compare: given beside parity"),
        (compared(), "compare.kinds: empty"),
        (compared(defaults="float8"), "compare.defaults"),
        (compared(kinds={"soap": {}}), "compare.kinds.soap: unknown"),
        (compared(kinds={"json": {"fields": [{"path": "a", "rule": "magic"}]}}), "compare.kinds.json.fields[0]"),
        (compared(kinds={"json": {"fields": [{"path": "a..b", "rule": "exact"}]}}), "compare.kinds.json.fields[0]"),
        (compared(kinds={"json": {"fields": [{"path": "a", "rule": "cosine", "min": 3}]}}), "compare.kinds.json"),
        (compared(kinds={"json": {"fields": 5}}), "compare.kinds"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_by_name(document: dict[str, Any], problem: str) -> None:
    """Every fault stands under its path in the plan."""
    with pytest.raises(PlanError) as refused:
        parse_plan(document, "demo")
    assert any(found.startswith(problem) for found in refused.value.problems), refused.value.problems


def test_streams_are_judged_when_the_plan_asks_for_it() -> None:
    """Their defaults are those of the rule; a plan that says nothing of them has none."""
    slo = {**DEMO["slo"], "ttft": {"limit_ms": 800}, "itl": {"limit_ms": 60, "allowed": 0.1}, "stream_broken": {}}
    plan, digest = parse_plan({**DEMO, "slo": slo}, "demo")
    judged = {str(m.metric): (m.limit_ms, m.allowed) for m in plan.metrics if m.metric in STREAM}
    assert judged == {"ttft": (800, 0.05), "itl": (60, 0.1), "stream_broken": (None, 0.003)}
    assert digest != parse_plan(DEMO, "demo")[1]


def test_every_problem_with_streams_is_named() -> None:
    """All at once."""
    slo = {**DEMO["slo"], "ttft": {}, "itl": {"limit_ms": 0}, "stream_broken": {"limit_ms": 5}}
    with pytest.raises(PlanError) as refused:
        parse_plan({**DEMO, "slo": slo}, "demo")
    told = "; ".join(refused.value.problems)
    for field in ("slo.ttft.limit_ms: ", "slo.itl.limit_ms: 0: ", "slo.stream_broken.limit_ms: "):
        assert field in told


@pytest.mark.parametrize("gate", [1.0, 0.5, 11, True, "2x"])
def test_a_relative_gate_has_bounds(gate: Any) -> None:
    """A gate at or below the baseline's own rate, or far above it, is refused by name, value and what is allowed."""
    with pytest.raises(PlanError, match=r"relative_gate: .*(greater than 1|less than or equal to 10|valid number)"):
        parse_plan({**DEMO, "relative_gate": gate}, "demo")


def test_a_relative_gate_is_part_of_the_rule() -> None:
    """It is off by default, and frozen into the digest when it is on."""
    plain, digest = parse_plan(DEMO, "demo")
    gated, other = parse_plan({**DEMO, "relative_gate": 1.5}, "demo")
    assert (plain.rule.relative, gated.rule.relative) == (None, 1.5)
    assert replace(gated, rule=plain.rule) == plain
    assert digest != other


def test_problems_of_name_policy_and_steps_are_told_in_one_refusal() -> None:
    """None of them hides the others: whoever mends a plan mends it once."""
    document = {**compared(kinds={"soap": {}}), "rollout": "other", "steps": [50, 10]}
    document["strata"] = {"by": "body_bytes", "edges": [512, 512]}
    with pytest.raises(PlanError) as refused:
        parse_plan(document, "demo")
    assert [problem.partition(":")[0] for problem in refused.value.problems] == [
        "rollout",
        "compare.kinds.soap",
        "steps",
        "strata.edges",
    ]
