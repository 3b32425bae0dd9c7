"""What an explanation is made from: memory while there is one, the journal after a restart, never an error."""

from dataclasses import replace

from fakes.control import Stage, play, seconds, started, tick
from fakes.gateway import FakeStore

from gateway.core.explain import Case, explain
from gateway.core.run import State
from gateway.core.types import Count, Lane, Role
from gateway.core.verdict import VerdictName
from gateway.runtime.case import present_case
from gateway.runtime.figures import figures

THERE = 5000.0
"""A restart comes later."""


async def case_of(s: Stage) -> Case:
    return await present_case(s.conductor, s.analyst)


async def failing(s: Stage) -> None:
    """A run that is rolled back for error, and measured."""
    await started(s)
    await seconds(s, 3)
    await seconds(s, 12, failed=8)
    await s.conductor.settled()


def restarted(store: FakeStore) -> Case:
    """The case as another process finds it."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        cases.append(await case_of(s))

    play(scenario, store, now=THERE)
    return cases[0]


def test_a_rollback_is_the_same_case_before_and_after_a_restart() -> None:
    """Verdict and figures of the moment, not of now: what is counted afterwards changes nothing."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await failing(s)
        cases.append(await case_of(s))
        await seconds(s, 5)
        cases.append(await case_of(s))

    store = play(scenario).store
    before, later = cases
    after = restarted(store)
    assert before.rollout.state is State.ROLLED_BACK
    assert before.verdict is not None
    assert (before.verdict.name, before.verdict.metric) == (VerdictName.ROLL_BACK, "error")
    assert before.figures is not None
    assert before.figures.candidate.failed > 0
    assert explain(before) == explain(later) == explain(after)
    assert replace(after, rollout=before.rollout, now=before.now) == before


def test_with_the_store_away_after_a_restart_the_run_still_speaks() -> None:
    """No error, the run's own sentence, and no number made up; once the store is back the numbers are."""

    async def scenario(s: Stage) -> None:
        await failing(s)

    store = play(scenario).store
    cases: list[Case] = []

    async def after(s: Stage) -> None:
        store.down = True
        cases.append(await case_of(s))
        store.down = False
        cases.append(await case_of(s))

    play(after, store, now=THERE)
    away, back = cases
    assert (away.verdict, away.figures, away.journal_read) == (None, None, False)
    assert away.run.metric == "error"
    assert explain(away).headline.startswith("Rolled back from 10 % for error")
    assert back.journal_read
    assert back.verdict is not None


def test_with_the_store_away_memory_suffices() -> None:
    """The rollback is owed to the store, and explained all the same."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        s.store.down = True
        await seconds(s, 12, failed=8)
        cases.append(await case_of(s))
        s.store.down = False

    play(scenario)
    assert cases[0].journal_read
    assert cases[0].verdict is not None


def test_a_person_is_named_with_what_the_judge_said_then() -> None:
    """A second rollback ends nothing and rewrites nothing."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        await s.conductor.roll_back(who="ann", reason="pager")
        cases.append(await case_of(s))
        await s.conductor.roll_back(who="bob", reason="again")
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert (case.who, case.run.text, case.left) == ("ann", "pager", "stepping")
        assert case.verdict is not None
        assert case.verdict.name is VerdictName.HOLD
    assert len({explain(case).headline for case in cases}) == 1


def test_a_pause_is_told_with_who_and_why_also_after_a_restart() -> None:
    """The present verdict and figures stand beside it."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        await s.conductor.pause(who="ann", reason="lunch")
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    assert [(case.who, case.reason) for case in cases] == [("ann", "lunch")] * 2
    assert cases[0].verdict is not None


def test_a_pause_of_before_is_not_told_of_a_run_that_goes_on() -> None:
    """After resume the run speaks for itself; held, it does not borrow the words of a pause."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await s.conductor.pause(who="ann", reason="lunch")
        await s.conductor.resume(who="ann", reason="back")
        cases.append(await case_of(s))
        s.conductor.rollout = replace(s.conductor.rollout, state=State.HELD)
        cases.append(await case_of(s))

    play(scenario)
    assert [(case.who, case.reason) for case in cases] == [("", "")] * 2


def test_gate_one_is_told_by_its_problems() -> None:
    """Also after a restart."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        run = s.conductor.rollout.run
        assert run is not None
        await s.conductor.roll_back(who="ann", reason="for a plan that declares nothing")
        plan = replace(run.plan, declared_differences=())
        await s.conductor.start(plan, "digest", who="me", reason="go")
        await tick(s)
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert case.run.rule == "gate"
        assert len(case.problems) == 1
        assert case.problems[0].startswith("dtype (baseline 'float32', candidate 'bfloat16'): not declared")


def test_a_promotion_keeps_the_numbers_it_stands_on() -> None:
    """The last verdict of the judge, from the journal too."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 80)
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert case.rollout.state is State.DONE
        assert case.verdict is not None
        assert case.verdict.name is VerdictName.ADVANCE
        assert case.figures is not None
    assert explain(cases[0]) == explain(cases[1])


def test_a_frozen_advance_keeps_its_numbers() -> None:
    """What is proven stays visible while the gateway's own trouble holds the step."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 10)
        for _ in range(30):
            s.traffic()
            s.replica.workers["w0"].heard_at = -100.0
            await tick(s)
        verdict = (await case_of(s)).verdict
        assert verdict is not None
        assert (verdict.name, verdict.reason) == (VerdictName.HOLD, "frozen")
        assert verdict.rows
        assert verdict.bar > 0

    play(scenario)


def test_idle_has_no_figures_of_a_run() -> None:
    """Nothing is judged."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        cases.append(await case_of(s))

    play(scenario)
    assert (cases[0].figures, cases[0].verdict, cases[0].arms) == (None, None, ("gpu", "tpu"))


def test_figures_are_of_the_lanes_that_are_evidence() -> None:
    """Live requests of both arms, copies to the candidate; clients are counted by what they got."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3, failed=5)
        total = s.analyst.evidence.totals
        total[Role.BASELINE, Lane.COPY] = [7] * len(Count)
        client = total.setdefault((Role.BASELINE, Lane.CLIENT), [0] * len(Count))
        client[Count.OK], client[Count.FAILED] = 50, 2
        found = figures(s.analyst, s.clock.wall())
        assert (found.candidate.failed, found.candidate.live) == (10, 40)
        assert found.baseline.failed == 0
        assert (found.clients.answered, found.clients.failed) == (50, 2)
        assert found.recent_s == 6.0

    play(scenario)
