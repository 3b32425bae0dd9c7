from dataclasses import replace

import pytest

from bench.trials import OURS, RULES, Task, Trial, play

TASK = Task(kind="default", seed=5, run=0, rules=RULES, weights_bp=(1000,))


def by_rule(task: Task) -> dict[str, Trial]:
    return {trial.rule: trial for trial in play(task)}


def test_a_task_gives_the_same_trials_again_and_another_run_others() -> None:
    """A trial is a function of seed, run and scenario."""
    assert play(TASK) == play(TASK)
    bad = {
        by_rule(replace(TASK, run=run, seed=seed, rules=("ours",)))["ours"].bad_live
        for run, seed in ((0, 5), (1, 5), (0, 6))
    }
    assert len(bad) == 3


def test_which_rules_are_asked_changes_no_outcome() -> None:
    """Every rule judges the same requests, whoever else judges them."""
    together = by_rule(TASK)
    assert tuple(together) == RULES
    for rule in RULES:
        assert by_rule(replace(TASK, rules=(rule,))) == {rule: together[rule]}


def test_a_planted_fault_is_found_and_a_healthy_candidate_is_not() -> None:
    """The judge rolls back 5 % of errors within two minutes (cautious: five) and lets an equal candidate on."""
    healthy = by_rule(replace(TASK, rules=OURS))
    assert all(trial.outcome.rolled_back_at is None and trial.outcome.passed_first for trial in healthy.values())
    faulty = by_rule(replace(TASK, rules=OURS, fault="errors5"))
    for rule, trial in faulty.items():
        assert trial.outcome.rolled_back_at is not None
        assert trial.outcome.rolled_back_at < (300 if rule == "ours-cautious" else 120)


def test_only_strata_find_a_fault_of_the_largest_size() -> None:
    """5 % of 4 % of the requests is within what may fail."""
    task = replace(TASK, rules=("ours", "ours-strata"), fault="errors5large")
    found = [by_rule(replace(task, run=run)) for run in range(3)]
    assert [trials["ours"].outcome.rolled_back_at for trials in found] == [None] * 3
    assert all(trials["ours-strata"].outcome.metric == "error" for trials in found)


def test_a_rollback_ends_the_damage() -> None:
    """Bad live requests are counted up to the rollback: an earlier one costs fewer."""
    outage = by_rule(replace(TASK, fault="outage"))
    ours, flagger = outage["ours"], outage["flagger-like"]
    assert ours.outcome.rolled_back_at is not None
    assert flagger.outcome.rolled_back_at is not None
    assert ours.outcome.rolled_back_at < flagger.outcome.rolled_back_at
    assert ours.bad_live < flagger.bad_live


@pytest.mark.parametrize("kind", ["iid", "heavy"])
def test_every_ground_and_weight_gets_its_trials(kind: str) -> None:
    """One stream is judged with room and at the limit, at every weight that was asked for."""
    trials = play(
        replace(TASK, kind=kind, rules=("flagger-like",), grounds=("aa", "boundary"), weights_bp=(1000, 5000))
    )
    seen = [(trial.kind, trial.ground, trial.weight_bp) for trial in trials]
    assert seen == [(kind, ground, weight) for ground in ("aa", "boundary") for weight in (1000, 5000)]
