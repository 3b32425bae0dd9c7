"""What a judge is told of a closed window: one place for the run as it goes on and for the recording of it."""

from gateway.core.evidence import ClosedWindow
from gateway.core.plan import LATENCY, Plan
from gateway.core.types import Count, Role
from gateway.core.verdict import Judge


def book(judge: Judge, plan: Plan, window: ClosedWindow, shapes: tuple[str, ...]) -> None:
    """Gives ``judge``, which judges ``plan``, the window. Raises what ``Judge.close_window`` raises.

    shapes: those that compiled so far in this run.
    """
    metrics = tuple(limit.metric for limit in plan.metrics)
    judge.close_window(
        window.window,
        window.cells(metrics),
        compiles=window.sum(Role.CANDIDATE, Count.COMPILES),
        excused=window.sum(Role.CANDIDATE, Count.EXCUSED),
        answered=window.sum(Role.CANDIDATE, Count.OK),
        refused_unchecked=(*_unchecked(window, Role.CANDIDATE), *_unchecked(window, Role.BASELINE)),
        shapes=shapes,
        # A plan without classes may judge a recording that has them.
        strata=window.cells_by_stratum(metrics) if plan.strata else (),
        keys=window.keys,
        lanes={metric: window.lanes(metric) for metric in LATENCY if metric in metrics},
    )


def _unchecked(window: ClosedWindow, role: Role) -> tuple[int, int]:
    """(answers and refusals, refusals that could not be put to the baseline) of one arm."""
    return window.sum(role, Count.OK, Count.REFUSED_UNCHECKED), window.sum(role, Count.REFUSED_UNCHECKED)
