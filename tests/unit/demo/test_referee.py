from typing import Any

import pytest

from demo.referee import FaultTimer, as_expected, outcome_of
from demo.scenarios import SCENARIOS


def test_fault_waits_for_five_seconds_of_live_weight() -> None:
    """A fault begins once, after 5 s at 10 % or more without a break."""
    timer = FaultTimer(SCENARIOS["crash"])
    seen = [(0, 0.0), (1000, 1.0), (1000, 5.9), (0, 6.0), (1000, 7.0), (5000, 11.9), (5000, 12.0), (5000, 99.0)]
    assert [timer.due(weight, now) for weight, now in seen] == [None] * 6 + ["crash", None]
    assert timer.begun_at == 12.0


def test_low_weight_never_starts_a_fault() -> None:
    """Below 10 % nothing breaks, however long it lasts."""
    timer = FaultTimer(SCENARIOS["crash"])
    assert [timer.due(999, now) for now in (0.0, 100.0)] == [None, None]


def test_good_has_no_fault() -> None:
    """The healthy scenario never breaks anything."""
    timer = FaultTimer(SCENARIOS["good"])
    assert [timer.due(10000, now) for now in (0.0, 100.0)] == [None, None]


@pytest.mark.parametrize(
    ("state", "run_outcome", "outcome"),
    [
        ("stepping", None, None),
        ("baking", None, None),
        ("paused", None, None),
        ("done", "PROMOTED", "PROMOTED"),
        ("rolled_back", "ROLLED_BACK", "ROLLED_BACK"),
        ("rolled_back", "REFUSED", "REFUSED"),
        ("held", None, "INCONCLUSIVE"),
        ("inconclusive", None, "INCONCLUSIVE"),
    ],
)
def test_outcome(make: Any, state: str, run_outcome: str | None, outcome: str | None) -> None:
    """The run's own outcome counts; a run held for lack of evidence is inconclusive; else it goes on."""
    assert outcome_of(make.status(state=state, run=make.run(outcome=run_outcome))) == outcome


def test_right_outcome_for_the_wrong_reason_is_wrong() -> None:
    """A rollback counts as expected only when it names the scenario's metric."""
    assert as_expected(SCENARIOS["crash"], "ROLLED_BACK", "error")
    assert not as_expected(SCENARIOS["crash"], "ROLLED_BACK", "lat_p95")
    assert not as_expected(SCENARIOS["crash"], "PROMOTED", None)
    assert as_expected(SCENARIOS["good"], "PROMOTED", None)
    assert not as_expected(SCENARIOS["good"], "INCONCLUSIVE", None)
