"""With strata, equal arms are hardly ever convicted: small classes, a baseline with hardly any traffic, other mixes.

In each the arms are equal in every class, and one class is beyond the limit on both. A conviction is a false one; at
most 1 hour of 20 may end in it. The counts are drawn by seed, so a run of the tests is the same as any other.
"""

from collections.abc import Iterator

import pytest
from strata_cases import Arm, Rates, Window, convicted, hours_convicted, lat_plan, stream

ONE_SLOW: Rates = (0.01, 0.03, 0.3)
"""Of 5 % that are allowed."""
ONE_RATHER_SLOW: Rates = (0.002, 0.004, 0.065)
"""Of 1 % that are allowed."""
MIX: Rates = (0.6, 0.3, 0.1)
MOSTLY_SLOW: Rates = (0.3, 0.2, 0.5)
AT_THE_LIMIT: Rates = (0.05, 0.05, 0.05)


@pytest.mark.parametrize(
    ("allowed", "candidate", "baseline", "slow", "mix", "bursts"),
    [
        (0.05, 50, 150, AT_THE_LIMIT, MIX, False),
        (0.05, 50, 150, AT_THE_LIMIT, MIX, True),
        (0.05, 20, 50, ONE_SLOW, (0.6, 0.34, 0.06), False),
        (0.05, 20, 50, ONE_SLOW, (0.6, 0.34, 0.06), True),
        (0.05, 400, 100, ONE_SLOW, MIX, False),
        (0.05, 495, 5, ONE_SLOW, MIX, False),
        (0.05, 495, 5, ONE_SLOW, MIX, True),
        (0.01, 400, 100, ONE_RATHER_SLOW, MIX, False),
        (0.01, 495, 5, ONE_RATHER_SLOW, MIX, False),
        (0.01, 495, 5, ONE_RATHER_SLOW, MIX, True),
    ],
)
def test_equal_arms_of_equal_mix(
    allowed: float, candidate: float, baseline: float, slow: Rates, mix: Rates, bursts: bool
) -> None:
    """At the limit; a class of 9 baseline requests in 30 s; four times and a hundred times the baseline's requests."""
    pair = Arm(requests=candidate, mix=mix, slow=slow), Arm(requests=baseline, mix=mix, slow=slow)
    assert hours_convicted(lat_plan(allowed=allowed), *pair, runs=20, bursts=bursts) <= 1


@pytest.mark.parametrize(
    ("allowed", "candidate", "baseline", "slow"),
    [(0.05, 50, 150, ONE_SLOW), (0.05, 400, 100, ONE_SLOW), (0.01, 400, 100, ONE_RATHER_SLOW)],
)
@pytest.mark.parametrize(
    "other", [(0.65, 0.32, 0.03), (0.65, 0.3495, 0.0005)], ids=["less of the slow class", "hardly any of it"]
)
def test_equal_arms_of_another_mix(
    allowed: float, candidate: float, baseline: float, slow: Rates, other: Rates
) -> None:
    """The candidate has more of the slow class: plainly judged it is convicted, with strata it is not."""
    pair = Arm(requests=candidate, mix=MOSTLY_SLOW, slow=slow), Arm(requests=baseline, mix=other, slow=slow)
    assert hours_convicted(lat_plan((), allowed=allowed), *pair, runs=3) == 3
    assert hours_convicted(lat_plan(allowed=allowed), *pair, runs=20) <= 1


@pytest.mark.parametrize(("candidate", "baseline"), [(50, 450), (400, 100)])
def test_a_mix_that_changes_for_minutes(candidate: float, baseline: float) -> None:
    """One tenant's batch of slow requests goes to the candidate for five minutes of every ten: excused at once."""

    def hour(seed: int) -> Iterator[Window]:
        base = Arm(requests=baseline, mix=MIX, slow=ONE_SLOW)
        usual, batch = (
            stream(Arm(requests=candidate, mix=mix, slow=ONE_SLOW), base, seed=seed) for mix in (MIX, MOSTLY_SLOW)
        )
        for number, (without, with_batch) in enumerate(zip(usual, batch, strict=True)):
            yield with_batch if number % 60 >= 30 else without

    assert sum(convicted(lat_plan(()), hour(seed)) is not None for seed in range(3)) == 3
    assert sum(convicted(lat_plan(), hour(seed)) is not None for seed in range(20)) <= 1
