from typing import Any

import pytest

from demo.faults import Crash, Flap, Slow, Wrong, parse
from demo.scenarios import SCENARIOS, SHORT_LENGTHS


def longest(mix: dict[str, Any]) -> int:
    return max(int(part["tokens"][1]) for part in mix["parts"])


@pytest.mark.parametrize(
    ("name", "mode"),
    [("good", None), ("crash", Crash()), ("slow", Slow(501)), ("wrong", Wrong()), ("flap", Flap(5000, 25000)),
     ("recompile", None), ("refuse", None)],
)  # fmt: skip
def test_a_scenario_says_what_the_proxy_does(name: str, mode: object) -> None:
    """The slow answer is later than the limit; where the fault is in the traffic the proxy does nothing."""
    assert SCENARIOS[name].mode(limit_ms=400.5) == mode
    assert mode is None or parse(str(mode)) == mode


def test_the_flap_is_a_fifth_of_the_time() -> None:
    """The candidate is away for 20 % of each period."""
    flap = SCENARIOS["flap"].mode(limit_ms=1.0)
    assert isinstance(flap, Flap)
    assert flap.down_ms / flap.period_ms == 0.2


@pytest.mark.parametrize("name", ["recompile", "refuse"])
def test_only_the_later_traffic_is_outside_the_catalogue(name: str) -> None:
    """Until the fault begins every request fits the candidate; afterwards a large share does not."""
    scenario = SCENARIOS[name]
    assert scenario.mix is not None
    assert scenario.then_mix is not None
    assert longest(scenario.mix) <= SHORT_LENGTHS[-1] < longest(scenario.then_mix)
    shares = {part["tokens"][0] > SHORT_LENGTHS[-1]: part["share"] for part in scenario.then_mix["parts"]}
    assert shares[True] >= 0.3


def test_a_mix_up_of_rows_needs_several_rows() -> None:
    """Requests of several texts are a large share where their rows get mixed up."""
    mix = SCENARIOS["wrong"].mix
    assert mix is not None
    assert sum(part["share"] for part in mix["parts"] if part.get("texts", [1, 1])[0] > 1) >= 0.3


def test_every_fault_has_a_metric_and_no_promotion_passes() -> None:
    """A scenario with a fault expects a rollback for a named metric; none of them tolerates a promotion."""
    for scenario in SCENARIOS.values():
        if scenario.fault != "none":
            assert scenario.expected == "ROLLED_BACK"
            assert scenario.metrics
            assert "PROMOTED" not in scenario.tolerated
