"""Pairs that are compared beside the loop: every one is booked, late, void, or counted as not compared."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes.control import PLAN
from fakes.request_path import DRAWN, Stage, play

from gateway.core.compare.result import NotCompared, PairKind, PairResult
from gateway.core.plan import MetricId, ParityPolicy, Plan
from gateway.core.run import Run
from gateway.core.snapshot import Answer, Pair, Report
from gateway.core.types import Lane, Role
from gateway.runtime.analyst import Analyst
from gateway.runtime.pairs import Found

OK, BAD = PairResult(kind=PairKind.OK), PairResult(kind=PairKind.TOLERANCE)


class Slow:
    """Takes ``room`` pairs and says nothing of them until the test does."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.waiting: dict[str, Callable[[Found], None]] = {}

    def __call__(self, pair: Pair, plan: Plan, found: Callable[[Found], None]) -> bool:
        if len(self.waiting) >= self.room:
            return False
        self.waiting[pair.request_id] = found
        return True

    def say(self, request_id: str, found: Found) -> None:
        self.waiting.pop(request_id)(found)


def pair(request_id: str, window: int = 1001) -> Pair:
    answer = Answer(status=200, content_type="application/json", body=b"{}")
    return Pair(
        epoch=1, window=window, request_id=request_id, path="/v1/embeddings", served=Role.BASELINE,
        body_hash=request_id.encode(), baseline=answer, candidate=answer,
    )  # fmt: skip


def judging(compare: Slow) -> Analyst:
    plan = replace(PLAN, parity=ParityPolicy(cosine_min=0.99))
    run = Run(run_id="r", plan=plan, plan_digest="d", started_at=1000.0, who="", reason="")
    analyst = Analyst(compare, epoch=1, answer_timeout_s=10.0, now=1000.0)
    analyst.judge(run, epoch=1, now=1000.0, fresh=True, resume=None)
    analyst.attach("w0")
    return analyst


def complete(analyst: Analyst, at: float) -> None:
    """The worker says that it has nothing left from before."""
    analyst.report(
        Report(
            name="w0", version=1, epoch=1, at=at, windows=[], latencies=[], open_since=None, breaker=(0.0, 0.0),
            seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0), connections=(0, 0),
        )
    )  # fmt: skip


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_the_window_is_judged_with_its_pairs_in_whatever_order_they_come(order: str) -> None:
    """It is not closed while one of them is being compared, so no evidence is lost by how long that takes."""
    compare = Slow()
    analyst = judging(compare)
    closed = []
    for name in "abc":
        analyst.pair(pair(name))
    complete(analyst, 1005.0)
    for name in order:
        analyst.look(1005.0)
        assert analyst.evidence.next_window == 1001
        compare.say(name, BAD if name == "b" else OK)
    closed = list(analyst.evidence.close(1005.0))
    assert closed[0].events(Role.CANDIDATE, MetricId.PARITY) == (3, 1)
    assert (analyst.parity.pairs, analyst.parity.bad, analyst.parity.worst[0].request_id) == (3, 1, "b")
    assert (analyst.ever.pairs, analyst.ever.pairs_bad, analyst.ever.late_events) == (3, 1, 0)


def test_a_pair_that_takes_longer_than_an_answer_may_is_late() -> None:
    """The window goes on without it; it is counted as late and judged nowhere."""
    compare = Slow()
    analyst = judging(compare)
    analyst.pair(pair("a"))
    complete(analyst, 1013.0)
    analyst.look(1012.5)
    assert analyst.evidence.next_window == 1002
    compare.say("a", BAD)
    assert (analyst.parity.pairs, analyst.ever.pairs, analyst.ever.late_events) == (0, 0, 1)


def test_what_is_still_compared_when_an_epoch_ends_is_nobodys() -> None:
    """Neither the new epoch's evidence nor the ended run's figures change."""
    compare = Slow()
    analyst = judging(compare)
    for name in "ab":
        analyst.pair(pair(name))
    analyst.stop(epoch=2, now=1001.5, window_s=1.0)
    compare.say("a", BAD)
    compare.say("b", NotCompared.TOO_LARGE)
    assert analyst.final is not None
    assert (analyst.parity.pairs, analyst.final.parity.pairs, analyst.ever.pairs) == (0, 0, 0)
    assert (analyst.pairs.not_compared, analyst.final.not_compared) == ({}, {})
    assert analyst.evidence._awaited == {}


def test_pairs_beyond_the_queue_are_counted_and_said() -> None:
    """They are no evidence, hold no window, and another one like them is taken when there is room."""
    compare = Slow(room=1)
    analyst = judging(compare)
    for name in "abc":
        analyst.pair(pair(name))
    assert analyst.pairs.not_compared == {NotCompared.QUEUE_FULL: 2}
    assert analyst.ever.not_compared == {NotCompared.QUEUE_FULL: 2}
    compare.say("a", OK)
    analyst.pair(pair("b"))
    assert list(compare.waiting) == ["b"]
    compare.say("b", NotCompared.TOO_LARGE)
    complete(analyst, 1005.0)
    verdict = analyst.look(1005.0)
    assert verdict is not None
    assert verdict.notes[-2:] == (
        "2 pairs not compared: the answers came faster than they can be compared",
        "1 pair not compared: the answers have more places than are compared",
    )
    assert (analyst.parity.pairs, analyst.evidence.next_window) == (1, 1005)


def test_every_reason_has_its_words() -> None:
    """A note that cannot be written would take the verdict with it."""
    compare = Slow()
    analyst = judging(compare)
    for why in NotCompared:
        analyst.pair(pair(why))
        compare.say(why, why)
    assert len(analyst.pairs.notes()) == len(NotCompared)


@pytest.mark.parametrize(("body", "drawn"), [(DRAWN, True), (b"greedy", False)])
def test_a_pair_says_whether_its_answers_were_drawn_and_keeps_nothing_of_the_request(body: bytes, drawn: bool) -> None:
    """The flag is made where the body is at hand."""

    async def scenario() -> None:
        stage = Stage(weight=0, copies=10_000)
        stage.take(body=body)
        stage.leg(Role.BASELINE).answer(200)
        stage.leg(Role.CANDIDATE, Lane.COPY).answer(200)
        assert stage.pairs[0].baseline.drawn is drawn
        assert body not in repr(stage.pairs[0]).encode()

    play(scenario)
