"""What can be said of the baseline's rate where it, and not the limit, is what a candidate is held to."""

import math
from collections.abc import Sequence


def rate_at_most(events: int, bad: int) -> float:
    """An upper bound of the rate behind ``bad`` events of ``events``: none of few is no proof of a rate of 0.

    Two standard errors above (bad + 2) / (events + 4), at most 1 (Agresti and Coull, Approximate is better than
    "exact", The American Statistician 52, 1998).
    """
    centre = (bad + 2) / (events + 4)
    return min(1.0, centre + 2.0 * math.sqrt(centre * (1.0 - centre) / (events + 4)))


def relative_rate(allowed: float, rates: Sequence[float], at_most: float, gate: float) -> float:
    """What a relative gate holds the candidate to: ``gate`` times the highest of the baseline's present ``rates``.

    Never to less than half of what is allowed, so that a spotless baseline does not forbid the candidate its first bad
    event, nor to less than ``at_most``, an upper bound of the baseline's rate over minutes: a trail that is good by
    chance would convict a candidate that is as good as the baseline.
    """
    return max(allowed / 2.0, gate * max(rates), at_most)
