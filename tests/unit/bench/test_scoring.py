import pytest

from bench.outcome import Outcome
from bench.scoring import fault_rows, null_rows, problems
from bench.trials import Trial


def trial(
    back: int | None,
    passed: int | None = None,
    *,
    fault: str = "healthy",
    rule: str = "ours",
    run: int = 0,
    bad: int = 0,
) -> Trial:
    return Trial(
        kind="default",
        ground="aa",
        fault=fault,
        weight_bp=1000,
        seed=1,
        run=run,
        rule=rule,
        outcome=Outcome(rolled_back_at=back, passed_at=passed),
        bad_live=bad,
    )


def test_false_rollbacks_are_told_from_those_after_the_candidate_was_let_on() -> None:
    """A rule that had let the candidate on before it rolled back would have ended there."""
    (row,) = null_rows([trial(None, 600), trial(300), trial(900, 600), trial(None)])
    assert (row.runs, row.rolled_back, row.before_pass, row.passed) == (4, 2, 1, 2)
    assert row.passed_median_s == 600


def test_seed_sets_have_rows_of_their_own() -> None:
    """One bad seed set is not hidden behind good ones."""
    one, two = trial(300), trial(None)
    rows = null_rows([one, Trial(**{**{f: getattr(two, f) for f in two.__slots__}, "seed": 2})])
    assert [(row.seed, row.rolled_back) for row in rows] == [(1, 1), (2, 0)]


def test_times_count_from_the_fault_and_an_earlier_rollback_is_a_false_one() -> None:
    """What rolled back before the outage at 300 s found nothing; who never did counts as longer than all others."""
    outcomes = [(240, 5), (304, 30), (310, 40), (None, 900)]
    (row,) = fault_rows([trial(back, fault="outage", bad=bad) for back, bad in outcomes])
    assert (row.runs, row.early, row.found) == (4, 1, 2)
    assert (row.median_s, row.p95_s) == (10.0, None)
    assert row.bad_live == pytest.approx(970 / 3, abs=0.05)


def test_a_fault_that_was_let_on_first_is_counted_as_such() -> None:
    """Found after promotion is not found in time."""
    (row,) = fault_rows([trial(900, 600, fault="stall"), trial(300, fault="stall")])
    assert (row.found, row.passed_first) == (2, 1)


@pytest.mark.parametrize(("back", "wrong"), [(5, 0), (6, 1)])
def test_five_of_a_hundred_is_the_promise(back: int, wrong: int) -> None:
    """Five false rollbacks in a seed set of a hundred are within it, six are not."""
    rows = null_rows([trial(300 if run < back else None, run=run) for run in range(100)])
    assert len(problems(rows, [])) == wrong


def test_peers_are_not_held_to_our_promise() -> None:
    """The benchmark fails by what the judge does."""
    assert problems(null_rows([trial(300, rule="flagger-like")] * 10), []) == []


def test_a_judge_that_sees_nothing_fails() -> None:
    """Never rolling back keeps the promise and is caught by the gross faults; a mild one may be missed."""
    blind = fault_rows([trial(None, fault="stall")] * 20)
    assert problems([], blind) == ["ours: stall found in 0 of 20 runs; needed: 95%"]
    assert problems([], fault_rows([trial(None, fault="recompile")] * 20)) == []
