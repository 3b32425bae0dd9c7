"""When requests are due. The schedule never looks at answers: that is what makes the loop open."""

import random
from collections.abc import Iterator
from typing import Literal

Gaps = Literal["exponential", "fixed"]


def arrivals(*, rate: float, seconds: float, seed: int, gaps: Gaps) -> Iterator[float]:
    """Due times in seconds from the start, rising, all before ``seconds``.

    ``exponential`` gaps make a Poisson process of ``rate`` a second; ``fixed`` gaps are 1 / rate each.
    Raises ValueError unless rate and seconds are above 0.
    """
    if not rate > 0:
        raise ValueError(f"rate: {rate} must be above 0 requests a second")
    if not seconds > 0:
        raise ValueError(f"seconds: {seconds} must be above 0")
    draw = random.Random(f"{seed}/arrivals")
    due, number = 0.0, 0
    while True:
        if gaps == "exponential":
            due += draw.expovariate(rate)
        else:
            due = number / rate
            number += 1
        if due >= seconds:
            return
        yield due
