from typing import Any

import msgspec
import pytest

from demo.arms import arms_on
from demo.chart import Sample
from demo.frame import WIDTH
from demo.load_view import Load
from demo.result import Result, build, report, warm_up_of
from demo.scenarios import SCENARIOS
from demo.sizing import Sizing
from wire.admin import Explanation, Fact, JournalLine

AT = 1_800_000_000.0
EXPLANATION = Explanation(
    at=AT, state="rolled_back", weight=0, headline="Rolled back at 10 %: error.",
    facts=[
        Fact(label="Seen", text="9 of 80 candidate requests failed " + "x " * 80),
        *(Fact(label=label, text="as it is") for label in ("Limit", "Baseline", "Samples", "Rule")),
    ],
    next="Change one thing.",
)  # fmt: skip


def result(make: Any, name: str = "crash", **changes: Any) -> Result:
    run = make.run(
        outcome="ROLLED_BACK", metric="error", rule="breaker", decided_weight=1000, time_to_zero_ms=4.2,
        live_candidate_requests=41, state="rolled_back", decided_at=AT + 61.5,
    )  # fmt: skip
    status = make.status(state="rolled_back", weight=0, run=run)
    fields: dict[str, Any] = {
        "scenario": SCENARIOS[name], "cast": arms_on(), "outcome": "ROLLED_BACK", "status": status,
        "arms": [msgspec.structs.replace(arm, emulated=arm.role == "candidate") for arm in status.arms],
        "load": Load(sent=300, answered=300, compared=70), "sizing": Sizing(412.0, 8.1, "tpu", {}),
        "health": {"baseline": make.health(), "candidate": make.health(source="compiled")},
        "journal": [
            JournalLine(seq=1, at=AT, run_id="r", epoch=1, kind="start", who="demo", text="run opened"),
            JournalLine(
                seq=2, at=AT + 61.5, run_id="r", epoch=2, kind="rollback", who="gateway", text="error " + "x " * 80
            ),
            JournalLine(seq=3, at=AT + 61.6, run_id="r", epoch=2, kind="zero", who="gateway", text="zero everywhere"),
        ],
        "explanation": EXPLANATION, "series": [
            Sample(at=float(at), weight=10.0, baseline_p95_ms=40.0, candidate_p95_ms=400.0) for at in range(50)
        ],
        "step_scale": 1.0, "fault_began": AT + 55.6, "fault_at_s": 44.0, "fault_struck": 3,
        "decided_at": AT + 62.0, "canary_s": 50.0, "duration_s": 99.0,
    }  # fmt: skip
    return build(**(fields | changes))


def test_result_holds_what_programs_read(make: Any) -> None:
    """The file says outcome, metric, rule, weight in percent, live requests, time to zero, failures and warm-up."""
    found = msgspec.json.decode(msgspec.json.encode(result(make)))
    expected = {
        "scenario": "crash", "outcome": "ROLLED_BACK", "passed": True, "tolerated": False, "objections": [],
        "metric": "error", "rule": "breaker", "weight": 10.0, "live_candidate_requests": 41, "time_to_zero_ms": 4.2,
        "fault_to_decision_s": 5.9, "locust_requests": 300, "locust_failures": 0, "wrong_answers": 0,
        "min_cosine": 0.99123, "emulated": True, "duration_s": 99.0,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["warm_up"]["tpu"]["cache"] == "cold"
    assert found["versions"]["torch"]
    assert "emulated" in found["labels"]["tpu"]


@pytest.mark.parametrize(
    "load", [Load(compared=7, failures=1), Load(compared=7, unsent=1), Load(compared=7, wrong_answers=1), Load()]
)
def test_a_badly_served_client_fails_the_demo(make: Any, load: Load) -> None:
    """The right outcome with a request that failed, was never sent or wrong, or with none compared, does not pass."""
    seen = result(make, load=load)
    assert (len(seen.objections), seen.passed) == (1, False)
    assert result(make).passed


def test_wrong_outcome_fails_the_demo(make: Any) -> None:
    """A rollback in the healthy scenario does not pass, nor does a rollback without the fault."""
    assert not result(make, "good").passed
    unprovoked = result(make, fault_began=None)
    assert (unprovoked.fault_to_decision_s, unprovoked.passed) == (None, False)
    assert not result(make, explanation=msgspec.structs.replace(EXPLANATION, facts=[])).passed


def test_emulation_is_what_the_arms_say(make: Any) -> None:
    """Whether a device was emulated comes from the arms, not from what was meant to run."""
    arms = [msgspec.structs.replace(arm, emulated=False) for arm in make.status().arms]
    assert result(make).emulated
    assert not result(make, arms=arms).emulated


@pytest.mark.parametrize(("source", "cache"), [("eager", "none"), ("cache", "warm"), ("compiled", "cold")])
def test_cold_and_warm_are_told_apart(make: Any, source: str, cache: str) -> None:
    """Whether programs were compiled, loaded or not needed is in the result."""
    warm = warm_up_of(make.health(source=source))
    assert warm.cache == cache
    assert (warm.seconds, warm.buckets, warm.first_calls_s) == (8.0, 3, 3.0)
    assert warm.median_ms["8x128"] == 400.0


def test_report_explains(make: Any) -> None:
    """The report fits 100 columns and tells outcome, evidence, labels, times and the journal."""
    text = report(result(make))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    for part in (
        "ROLLED_BACK at 10 %, metric error by breaker", "as expected", "41 live requests", "300 requests, 0 failures",
        "5.9 s after the fault began", "time to zero: 4 ms", "9/80", "stands in for the GPU", "not TPU speed",
        "cold cache", "    61.5 s  rollback", "Rolled back at 10 %: error.\n  Seen      9 of 80", "Next      Change",
        "F fault begins at 44 s, D decision at 50 s",
    ):  # fmt: skip
        assert part in text, part


def test_report_says_what_was_expected(make: Any) -> None:
    """An unexpected outcome says what it should have been."""
    text = report(result(make, "good", load=Load(compared=7, wrong_answers=1)))
    assert "(scenario good: NOT as expected)" in text
    assert "  ! outcome: ROLLED_BACK; expected PROMOTED\n" in text
    assert "  ! clients: 1 of 7 compared answers were wrong" in text
