"""Which two HTTP statuses form a pair of answers, and when they alone decide it."""

from gateway.core.compare.result import PairKind, PairResult


def is_pair(baseline: int, candidate: int) -> bool:
    """Two HTTP statuses that can be compared: a success on one side at least, a refusal (4xx) at worst on the other.

    Server errors, time-outs (408) and overload (429) are booked as failures of the arm and make no pair; two refusals
    are the client's fault and none either.
    """
    both = (baseline, candidate)
    return any(map(_is_success, both)) and all(_is_success(s) or _is_refusal(s) for s in both)


def compare_statuses(baseline: int, candidate: int) -> PairResult | None:
    """The failure when one arm succeeded and the other refused; None when both succeeded and the bodies decide.

    ValueError for statuses that make no pair.
    """
    if not is_pair(baseline, candidate):
        raise ValueError(f"status: baseline {baseline}, candidate {candidate}; a pair is 2xx with 2xx or with 4xx")
    if _is_success(baseline) and _is_success(candidate):
        return None
    return PairResult(kind=PairKind.STATUS, detail=f"status: baseline {baseline}, candidate {candidate}")


def _is_success(status: int) -> bool:
    return 200 <= status < 300


def _is_refusal(status: int) -> bool:
    return 400 <= status < 500 and status not in (408, 429)
