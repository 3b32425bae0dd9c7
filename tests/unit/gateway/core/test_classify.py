import pytest

from gateway.core.classify import Loss, answered, copied, is_accepted, is_failure, is_refusal, lost, phase_of
from gateway.core.types import Outcome, Phase


@pytest.mark.parametrize("status", range(200, 600))
def test_every_status_is_one_thing(status: int) -> None:
    """A status is exactly one of accepted, refusal and failure."""
    assert [is_accepted(status), is_refusal(status), is_failure(status)].count(True) == 1


@pytest.mark.parametrize("status", [400, 404, 405, 411, 413, 415, 422, 401, 403])
def test_refusals(status: int) -> None:
    """What a server with another catalogue or other rights answers is a refusal, not a failure."""
    assert is_refusal(status)
    assert answered(status) is Outcome.CLIENT_FAULT


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
def test_failures(status: int) -> None:
    """Overload and server errors are the arm's failure."""
    assert is_failure(status)
    assert answered(status) is Outcome.FAILED


def test_accepted_answers_are_ok() -> None:
    """2xx and 3xx are good answers."""
    assert answered(200) is Outcome.OK
    assert answered(304) is Outcome.OK


@pytest.mark.parametrize("loss", [loss for loss in Loss if loss not in (Loss.STALE, Loss.LOCAL)])
def test_a_loss_is_a_failure(loss: Loss) -> None:
    """However an arm fails to answer, with its full time it is an error."""
    assert lost(loss, cut_short=False) is Outcome.FAILED


def test_a_shortage_of_the_gateways_own_is_nobodys_failure() -> None:
    """It is counted where clients who went away are."""
    assert lost(Loss.LOCAL, cut_short=False) is Outcome.CANCELLED


def test_cut_short_is_late_but_no_error() -> None:
    """A time-out before the arm's own proves no error; a reset does, however short the time."""
    assert lost(Loss.FIRST_BYTE_TIMEOUT, cut_short=True) is Outcome.TIMED_OUT_BY_CLIENT_DEADLINE
    assert lost(Loss.TOTAL_TIMEOUT, cut_short=True) is Outcome.TIMED_OUT_BY_CLIENT_DEADLINE
    assert lost(Loss.RESET, cut_short=True) is Outcome.FAILED


@pytest.mark.parametrize(
    ("status", "other", "outcome"),
    [
        (200, 200, Outcome.OK),
        (200, None, Outcome.OK),
        (500, 200, Outcome.FAILED),
        (429, 200, Outcome.SHED),
        (503, 200, Outcome.SHED),
        (400, 200, Outcome.REFUSED),
        (400, 422, Outcome.CLIENT_FAULT),
        (400, 500, Outcome.REFUSED_UNCHECKED),
        (400, None, Outcome.REFUSED_UNCHECKED),
    ],
)
def test_copies(status: int, other: int | None, outcome: Outcome) -> None:
    """A copy that is turned away under load is shed; one that is refused is held against the baseline's answer."""
    assert copied(status, other) is outcome


@pytest.mark.parametrize(
    ("loss", "answering", "phase"),
    [
        (Loss.REFUSED, False, Phase.CONNECT),
        (Loss.CONNECT_TIMEOUT, False, Phase.CONNECT),
        (Loss.RESET, False, Phase.FIRST_BYTE),
        (Loss.FIRST_BYTE_TIMEOUT, False, Phase.FIRST_BYTE),
        (Loss.GARBAGE, False, Phase.FIRST_BYTE),
        (Loss.TOTAL_TIMEOUT, False, Phase.FIRST_BYTE),
        (Loss.RESET, True, Phase.BODY),
        (Loss.IDLE_TIMEOUT, True, Phase.BODY),
        (None, True, Phase.STATUS),
    ],
)
def test_how_far_a_failed_request_came(loss: Loss | None, answering: bool, phase: Phase) -> None:
    """By what was lost, and whether an answer had begun."""
    assert phase_of(loss, answering=answering) is phase
