from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.classify import Loss, phase_of
from gateway.core.effects import (
    Answer,
    Book,
    Break,
    Cancel,
    CopyTo,
    Discard,
    Drop,
    Effect,
    EndStream,
    Fail,
    FailedOver,
    FailReason,
    Instead,
    Leg,
    Saw,
    Send,
    Standing,
    Stream,
)
from gateway.core.exchange import Exchange, State, Terms
from gateway.core.leg import Head, Patience
from gateway.core.types import Outcome, Phase, Role

ABLE = Standing.ABLE
PLAN = Patience(first_byte_s=10.0, total_s=30.0)
TERMS = Terms(
    judged=True,
    assigned=Role.CANDIDATE,
    replayable=True,
    deadline=None,
    slowest_limit_s=0.5,
    copy=False,
    baseline=PLAN,
    candidate=PLAN,
    answer_hold=1000,
)
TO_CANDIDATE = Send(Leg.FIRST, Role.CANDIDATE, PLAN, counted=True)
TO_BASELINE = Send(Leg.FIRST, Role.BASELINE, PLAN, counted=True)
STAND_IN = Send(Leg.FIRST, Role.BASELINE, PLAN, counted=False)
SECOND = Send(Leg.SECOND, Role.BASELINE, PLAN, counted=False)


def head(status: int, *, compiles: int = 0, length: int | None = 10, events: bool = False) -> Head:
    return Head(status, [], "application/json", length, compiles, events, False)


def failed(phase: Phase, role: Role = Role.CANDIDATE) -> Book:
    return Book(role, Outcome.FAILED, phase=phase)


class Play:
    """An exchange and every effect it has had so far, oldest first."""

    def __init__(self, terms: Terms = TERMS, *, candidate: Standing = ABLE, baseline: Standing = ABLE) -> None:
        self.exchange = Exchange(terms)
        self.baseline = baseline
        self.now = 100.0
        self.effects: list[Effect] = [*self.exchange.start(self.now, candidate=candidate, baseline=baseline)]

    def head(self, leg: Leg, status: int, **values: object) -> "Play":
        answer = head(status, **values)  # type: ignore[arg-type]  # keyword arguments of head()
        self.effects += self.exchange.on_head(leg, answer, self.now, baseline=self.baseline)
        return self

    def complete(self, leg: Leg) -> "Play":
        self.effects += self.exchange.on_complete(leg, self.now, baseline=self.baseline)
        return self

    def whole(self, leg: Leg, status: int, **values: object) -> "Play":
        return self.head(leg, status, **values).complete(leg)

    def lost(self, leg: Leg, loss: Loss = Loss.RESET) -> "Play":
        self.effects += self.exchange.on_lost(leg, loss, self.now, baseline=self.baseline)
        return self

    def overflow(self, leg: Leg) -> "Play":
        self.effects += self.exchange.on_overflow(leg)
        return self

    def gone(self) -> "Play":
        self.effects += self.exchange.on_client_gone()
        return self

    def written(self, leg: Leg) -> "Play":
        self.effects += self.exchange.on_written(leg)
        return self


def test_a_good_candidate_answers() -> None:
    """An accepted answer of the candidate goes to the client and is booked as good."""
    assert Play().whole(Leg.FIRST, 200).effects == [
        TO_CANDIDATE,
        Answer(Leg.FIRST),
        Book(Role.CANDIDATE, Outcome.OK),
        Saw(Role.CANDIDATE, Outcome.OK),
    ]


def test_a_good_baseline_answers() -> None:
    """A request of the baseline is booked for the baseline."""
    assert Play(replace(TERMS, assigned=Role.BASELINE)).whole(Leg.FIRST, 200).effects == [
        TO_BASELINE,
        Answer(Leg.FIRST),
        Book(Role.BASELINE, Outcome.OK),
        Saw(Role.BASELINE, Outcome.OK),
    ]


def test_pinned_requests_are_never_counted() -> None:
    """A pinned request goes to the baseline and books nothing, however it ends."""
    terms = replace(TERMS, judged=False, assigned=Role.BASELINE)
    sent = Send(Leg.FIRST, Role.BASELINE, PLAN, counted=False)
    assert Play(terms).whole(Leg.FIRST, 500).effects == [sent, Answer(Leg.FIRST)]
    assert Play(terms).lost(Leg.FIRST).effects == [sent, Fail(FailReason.UPSTREAM_FAILED, after_failover=False)]
    assert Play(terms).gone().effects == [sent, Cancel(Leg.FIRST)]


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_candidate_failure_is_answered_by_the_baseline(status: int) -> None:
    """A failing status books one failed candidate attempt; the second leg books nothing for the baseline."""
    play = Play().head(Leg.FIRST, status)
    assert play.effects == [TO_CANDIDATE, Discard(Leg.FIRST), failed(Phase.STATUS), SECOND]
    assert play.whole(Leg.SECOND, 200).effects[4:] == [
        Answer(Leg.SECOND),
        FailedOver(),
        Saw(Role.BASELINE, Outcome.OK),
    ]
    assert play.exchange.instead is Instead.FAILED


@pytest.mark.parametrize("loss", [loss for loss in Loss if loss not in (Loss.STALE, Loss.LOCAL)])
def test_candidate_loss_is_answered_by_the_baseline(loss: Loss) -> None:
    """So does every way of not answering, also in mid-body while the answer is held."""
    for play, phase in ((Play(), phase_of(loss, answering=False)), (Play().head(Leg.FIRST, 200), Phase.BODY)):
        assert play.lost(Leg.FIRST, loss).effects == [TO_CANDIDATE, failed(phase), SECOND]


def test_failover_happens_once() -> None:
    """When the baseline fails in the second leg the client gets an error that says not to try again."""
    assert Play().lost(Leg.FIRST).lost(Leg.SECOND).effects[2:] == [
        SECOND,
        Fail(FailReason.UPSTREAM_FAILED, after_failover=True),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


def test_a_failing_second_answer_is_passed_on() -> None:
    """A 5xx of the baseline in the second leg is the client's answer, and no failover that helped."""
    assert Play().lost(Leg.FIRST).whole(Leg.SECOND, 500).effects[3:] == [
        Answer(Leg.SECOND),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


def test_failover_is_bounded_by_the_baseline() -> None:
    """A baseline that has enough to do ends the failover; the candidate stays charged."""
    assert Play(baseline=Standing.FULL).lost(Leg.FIRST).effects == [
        TO_CANDIDATE,
        failed(Phase.FIRST_BYTE),
        Fail(FailReason.BASELINE_FULL, after_failover=True),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


def test_what_cannot_be_replayed_is_not_failed_over() -> None:
    """Without the body at hand the candidate's failure is the client's: its 5xx as it is, or our 502."""
    terms = replace(TERMS, replayable=False)
    assert Play(terms).whole(Leg.FIRST, 500).effects[1:] == [
        Answer(Leg.FIRST),
        failed(Phase.STATUS),
        Saw(Role.CANDIDATE, Outcome.FAILED),
    ]
    assert Play(terms).lost(Leg.FIRST).effects[1:] == [
        Fail(FailReason.UPSTREAM_FAILED, after_failover=False),
        failed(Phase.FIRST_BYTE),
        Saw(Role.CANDIDATE, Outcome.FAILED),
    ]


@pytest.mark.parametrize("status", [400, 404, 405, 411, 413, 415, 422])
def test_a_refusal_is_put_to_the_baseline(status: int) -> None:
    """Where the baseline accepts, the candidate has refused, and the baseline's answer goes to the client."""
    play = Play().whole(Leg.FIRST, status)
    assert play.effects == [TO_CANDIDATE, SECOND]
    assert play.whole(Leg.SECOND, 200).effects[2:] == [
        Book(Role.CANDIDATE, Outcome.REFUSED),
        Answer(Leg.SECOND),
        Saw(Role.BASELINE, Outcome.OK),
    ]
    assert play.exchange.instead is Instead.REFUSED


def test_a_refusal_that_both_share_is_the_clients_fault() -> None:
    """A 4xx of the baseline, too, is its answer to the client and counts in no metric."""
    assert Play().whole(Leg.FIRST, 400).whole(Leg.SECOND, 422).effects[2:] == [
        Book(Role.CANDIDATE, Outcome.CLIENT_FAULT),
        Answer(Leg.SECOND),
        Saw(Role.BASELINE, Outcome.CLIENT_FAULT),
    ]


@pytest.mark.parametrize("baseline_fails", ["status", "loss", "full"])
def test_a_refusal_that_cannot_be_checked(baseline_fails: str) -> None:
    """When the baseline cannot say, the client gets the candidate's refusal, booked as unchecked."""
    play = Play(baseline=Standing.FULL if baseline_fails == "full" else ABLE).whole(Leg.FIRST, 400)
    if baseline_fails == "status":
        play.head(Leg.SECOND, 503)
    elif baseline_fails == "loss":
        play.lost(Leg.SECOND)
    unchecked = [
        Book(Role.CANDIDATE, Outcome.REFUSED_UNCHECKED),
        Answer(Leg.FIRST),
        Saw(Role.CANDIDATE, Outcome.CLIENT_FAULT),
    ]
    assert [e for e in play.effects if not isinstance(e, Send | Discard)] == unchecked


@pytest.mark.parametrize("role", list(Role))
def test_a_refusal_that_cannot_be_replayed_is_unchecked(role: Role) -> None:
    """Both arms' rates are counted, because the candidate's is held to the baseline's."""
    assert Play(replace(TERMS, replayable=False, assigned=role)).whole(Leg.FIRST, 400).effects[1:] == [
        Answer(Leg.FIRST),
        Book(role, Outcome.REFUSED_UNCHECKED),
        Saw(role, Outcome.CLIENT_FAULT),
    ]


def test_a_refusal_too_large_to_hold_is_unchecked() -> None:
    """A refusal that outgrows the hold streams to the client."""
    play = Play().head(Leg.FIRST, 400, length=None).overflow(Leg.FIRST)
    assert play.effects[1:] == [Book(Role.CANDIDATE, Outcome.REFUSED_UNCHECKED), Stream(Leg.FIRST)]
    assert play.complete(Leg.FIRST).effects[3:] == [EndStream(), Saw(Role.CANDIDATE, Outcome.CLIENT_FAULT)]


def test_a_large_second_answer_decides_the_check_with_its_status() -> None:
    """The baseline's answer to a checked refusal streams when it is too large to hold."""
    for play in (
        Play().whole(Leg.FIRST, 400).head(Leg.SECOND, 200, length=5000),
        Play().whole(Leg.FIRST, 400).head(Leg.SECOND, 200, length=None).overflow(Leg.SECOND),
    ):
        assert play.effects[2:] == [Book(Role.CANDIDATE, Outcome.REFUSED), Stream(Leg.SECOND)]
        assert play.complete(Leg.SECOND).effects[4:] == [EndStream(), Saw(Role.BASELINE, Outcome.OK)]


@pytest.mark.parametrize("standing", [Standing.UNREADY, Standing.TRIPPED, Standing.FULL])
def test_an_unavailable_candidate_is_charged(standing: Standing) -> None:
    """What the candidate cannot take is served by the baseline and booked for the candidate alone."""
    play = Play(candidate=standing)
    assert play.effects == [Book(Role.CANDIDATE, Outcome.UNAVAILABLE), STAND_IN]
    assert play.whole(Leg.FIRST, 200).effects[2:] == [Answer(Leg.FIRST), FailedOver(), Saw(Role.BASELINE, Outcome.OK)]
    assert play.exchange.instead is Instead.UNAVAILABLE


def test_a_candidate_that_was_never_ready_is_not_charged() -> None:
    """Before the candidate was first ready in the epoch its absence is nobody's fault."""
    assert Play(candidate=Standing.ABSENT).whole(Leg.FIRST, 200).effects == [
        STAND_IN,
        Answer(Leg.FIRST),
        Saw(Role.BASELINE, Outcome.OK),
    ]


def test_a_stand_in_that_fails_is_not_the_baselines() -> None:
    """A stand-in's failure is seen by the client and books nothing for the baseline."""
    assert Play(candidate=Standing.UNREADY).lost(Leg.FIRST).effects[2:] == [
        Fail(FailReason.UPSTREAM_FAILED, after_failover=False),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


def test_a_full_baseline() -> None:
    """A baseline that has enough to do is answered for with 503 and booked unavailable."""
    assert Play(replace(TERMS, assigned=Role.BASELINE), baseline=Standing.FULL).effects == [
        Fail(FailReason.BASELINE_FULL, after_failover=False),
        Book(Role.BASELINE, Outcome.UNAVAILABLE),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


@pytest.mark.parametrize("assigned", list(Role))
def test_no_connection_to_the_baseline(assigned: Role) -> None:
    """It is tried whatever is said of it; one that cannot be reached is answered for as unavailable."""
    play = Play(replace(TERMS, assigned=assigned))
    if assigned is Role.CANDIDATE:
        play.lost(Leg.FIRST)
    play.lost(play.exchange.leg, Loss.REFUSED)
    fail = Fail(FailReason.BASELINE_UNAVAILABLE, after_failover=assigned is Role.CANDIDATE)
    assert [e for e in play.effects if isinstance(e, Fail)] == [fail]
    assert failed(Phase.FIRST_BYTE if assigned is Role.CANDIDATE else Phase.CONNECT, assigned) in play.effects


def test_no_connection_to_a_candidate_without_a_way_back() -> None:
    """It is not the baseline that is away."""
    play = Play(replace(TERMS, replayable=False)).lost(Leg.FIRST, Loss.REFUSED)
    assert play.effects[1] == Fail(FailReason.UPSTREAM_FAILED, after_failover=False)


@pytest.mark.parametrize("status", [200, 503])
def test_shapes_are_booked_with_the_compiles(status: int) -> None:
    """Whether the answer is used or failed over."""
    play = Play()
    answer = Head(status, [], "application/json", 10, 2, False, False, ("4x128", "1x128"))
    effects = [*play.exchange.on_head(Leg.FIRST, answer, 1.0, baseline=Standing.ABLE)]
    effects += play.exchange.on_complete(Leg.FIRST, 1.0, baseline=Standing.ABLE)
    (booked,) = [effect for effect in effects if isinstance(effect, Book)]
    assert (booked.compiles, booked.compiled) == (2, ("4x128", "1x128"))


def test_compiles_are_booked_with_the_answer() -> None:
    """An answer that met a compile carries it into the books."""
    assert Book(Role.CANDIDATE, Outcome.OK, 2) in Play().whole(Leg.FIRST, 200, compiles=2).effects


@pytest.mark.parametrize(
    ("left", "limit", "first_byte"),
    [(8.0, 0.5, 4.0), (8.0, 6.0, 6.0), (100.0, 0.5, 10.0), (0.4, 0.5, 0.4)],
)
def test_the_candidate_may_use_half_of_the_clients_time(left: float, limit: float, first_byte: float) -> None:
    """First byte within min(plan, max(half of the deadline, largest limit)), and never beyond the deadline."""
    play = Play(replace(TERMS, deadline=100.0 + left, slowest_limit_s=limit))
    (sent,) = play.effects
    assert isinstance(sent, Send)
    assert sent.patience.first_byte_s == pytest.approx(first_byte)
    assert sent.patience.total_s == pytest.approx(min(30.0, left))


def test_a_cut_before_the_plans_time_out_is_late_but_no_error() -> None:
    """The candidate cut off for the client's deadline is booked so, and the rest of the time is the baseline's."""
    play = Play(replace(TERMS, deadline=108.0))
    play.now = 104.0
    assert play.lost(Leg.FIRST, Loss.FIRST_BYTE_TIMEOUT).effects[1:] == [
        Book(Role.CANDIDATE, Outcome.TIMED_OUT_BY_CLIENT_DEADLINE),
        Send(Leg.SECOND, Role.BASELINE, Patience(4.0, 4.0), counted=False),
    ]


def test_no_time_left_for_the_baseline() -> None:
    """Failover after the deadline is pointless; the client gets 504."""
    play = Play(replace(TERMS, deadline=108.0))
    play.now = 108.5
    assert play.lost(Leg.FIRST).effects[2:] == [
        Fail(FailReason.DEADLINE, after_failover=True),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


def test_the_baselines_time_out() -> None:
    """With its full time it is an error and 504; cut by the client's deadline it is no error, and says deadline."""
    play = Play(replace(TERMS, assigned=Role.BASELINE)).lost(Leg.FIRST, Loss.FIRST_BYTE_TIMEOUT)
    assert play.effects[1:3] == [Fail(FailReason.UPSTREAM_TIMEOUT, False), failed(Phase.FIRST_BYTE, Role.BASELINE)]
    play = Play(replace(TERMS, assigned=Role.BASELINE, deadline=105.0))
    play.now = 105.0
    cut = Book(Role.BASELINE, Outcome.TIMED_OUT_BY_CLIENT_DEADLINE)
    assert play.lost(Leg.FIRST, Loss.FIRST_BYTE_TIMEOUT).effects[1:3] == [Fail(FailReason.DEADLINE, False), cut]


def test_large_and_endless_answers_stream() -> None:
    """An answer longer than the hold, or an event stream, goes to the client as it comes."""
    assert Play().head(Leg.FIRST, 200, length=1001).effects[1:] == [Stream(Leg.FIRST)]
    assert Play().head(Leg.FIRST, 200, length=None).overflow(Leg.FIRST).effects[1:] == [Stream(Leg.FIRST)]
    events = Play().head(Leg.FIRST, 200, length=None, events=True).complete(Leg.FIRST)
    assert events.effects[1:] == [
        Stream(Leg.FIRST, events=True, counted=True),
        EndStream(),
        Book(Role.CANDIDATE, Outcome.OK),
        Saw(Role.CANDIDATE, Outcome.OK),
    ]


@pytest.mark.parametrize("case", ["failed over", "stand-in", "pinned", "refused"])
def test_a_stream_that_is_nobodys_evidence_is_not_counted(case: str) -> None:
    """What the baseline sends in the candidate's place, what is not judged, and an error told as events."""
    match case:
        case "failed over":
            play = Play().lost(Leg.FIRST).head(Leg.SECOND, 200, length=None, events=True)
        case "stand-in":
            play = Play(candidate=Standing.UNREADY).head(Leg.FIRST, 200, length=None, events=True)
        case "pinned":
            terms = replace(TERMS, judged=False, assigned=Role.BASELINE)
            play = Play(terms).head(Leg.FIRST, 200, length=None, events=True)
        case _:
            terms = replace(TERMS, assigned=Role.BASELINE)
            play = Play(terms).head(Leg.FIRST, 400, length=None, events=True)
    (begun,) = (effect for effect in play.effects if isinstance(effect, Stream))
    assert (begun.events, begun.counted) == (True, False)


def test_a_broken_stream_is_broken_off_and_booked() -> None:
    """After the first byte nothing is repeated."""
    assert Play().head(Leg.FIRST, 200, length=1001).lost(Leg.FIRST).effects[2:] == [
        Break(),
        failed(Phase.BODY),
        Saw(Role.CANDIDATE, Outcome.FAILED),
    ]


def test_a_client_that_goes_away_counts_nowhere() -> None:
    """The arm is told, and the request is booked as cancelled."""
    assert Play().gone().effects[1:] == [
        Cancel(Leg.FIRST),
        Book(Role.CANDIDATE, Outcome.CANCELLED),
        Saw(Role.CANDIDATE, Outcome.CANCELLED),
    ]


def test_a_client_that_goes_away_during_failover_leaves_the_failure_booked() -> None:
    """The candidate's failure stands; only the second leg is cancelled."""
    assert Play().lost(Leg.FIRST).gone().effects[1:] == [
        failed(Phase.FIRST_BYTE),
        SECOND,
        Cancel(Leg.SECOND),
        Saw(Role.BASELINE, Outcome.CANCELLED),
    ]


def test_what_was_not_written_goes_back_to_the_baseline() -> None:
    """A request that became stale in the queue counts nowhere for the candidate."""
    assert Play().lost(Leg.FIRST, Loss.STALE).whole(Leg.SECOND, 200).effects[1:] == [
        Drop(),
        SECOND,
        Answer(Leg.SECOND),
        Saw(Role.BASELINE, Outcome.OK),
    ]


@pytest.mark.parametrize("replayable", [True, False])
def test_a_shortage_of_our_own_is_not_booked_for_the_candidate(replayable: bool) -> None:
    """Nothing was written, so the baseline gets the request; when that cannot be reached either, it is not charged."""
    play = Play(replace(TERMS, replayable=replayable)).lost(Leg.FIRST, Loss.LOCAL)
    assert play.effects[1:] == [Drop(), SECOND]
    assert play.lost(Leg.SECOND, Loss.LOCAL).effects[3:] == [
        Fail(FailReason.BASELINE_UNAVAILABLE, after_failover=False),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


def test_a_shortage_of_our_own_is_not_booked_for_the_baseline() -> None:
    """There is nobody else to ask: the client gets an error, and nobody's failures grow."""
    assert Play(replace(TERMS, assigned=Role.BASELINE)).lost(Leg.FIRST, Loss.LOCAL).effects[1:] == [
        Fail(FailReason.BASELINE_UNAVAILABLE, after_failover=False),
        Book(Role.BASELINE, Outcome.CANCELLED),
        Saw(Role.BASELINE, Outcome.FAILED),
    ]


def test_what_waited_for_an_arm_that_is_no_longer_the_baseline_goes_to_the_one_that_is() -> None:
    """Roles were swapped: nothing was written, so nothing is counted, and the client notices nothing."""
    play = Play(replace(TERMS, assigned=Role.BASELINE)).lost(Leg.FIRST, Loss.STALE)
    assert play.whole(Leg.FIRST, 200).effects == [
        TO_BASELINE,
        Drop(),
        STAND_IN,
        Answer(Leg.FIRST),
        Saw(Role.BASELINE, Outcome.OK),
    ]


def test_a_second_leg_that_routing_overtook_is_sent_again() -> None:
    """What is booked for the candidate stays; a check that was under way goes on with the present baseline."""
    assert Play().lost(Leg.FIRST).lost(Leg.SECOND, Loss.STALE).whole(Leg.SECOND, 200).effects == [
        TO_CANDIDATE,
        failed(Phase.FIRST_BYTE),
        SECOND,
        SECOND,
        Answer(Leg.SECOND),
        FailedOver(),
        Saw(Role.BASELINE, Outcome.OK),
    ]
    checked = Play().whole(Leg.FIRST, 400).lost(Leg.SECOND, Loss.STALE).whole(Leg.SECOND, 200)
    assert checked.effects[1:4] == [SECOND, SECOND, Book(Role.CANDIDATE, Outcome.REFUSED)]


def test_a_full_baseline_takes_nothing_that_routing_overtook() -> None:
    """The swap does not overload the arm that takes over."""
    play = Play(replace(TERMS, assigned=Role.BASELINE))
    play.baseline = Standing.FULL
    assert play.lost(Leg.FIRST, Loss.STALE).effects[1:3] == [Drop(), Fail(FailReason.BASELINE_FULL, False)]


@pytest.mark.parametrize("role", list(Role))
def test_a_copy_is_made_once_the_request_is_written(role: Role) -> None:
    """The other arm gets the copy, only after the client's request is on its way, and no other when it is repeated."""
    play = Play(replace(TERMS, assigned=role, copy=True))
    assert not any(isinstance(e, CopyTo) for e in play.effects)
    assert play.written(Leg.FIRST).written(Leg.FIRST).effects[1:] == [CopyTo(role.other)]


@pytest.mark.parametrize("role", list(Role))
def test_a_copy_that_was_drawn_to_go_first_is_made_before_the_request_is_sent(role: Role) -> None:
    """In the same turn, once, and no other when the request is written, or written again."""
    play = Play(replace(TERMS, assigned=role, copy=True, copy_first=True))
    sent = Send(Leg.FIRST, role, PLAN, counted=True)
    assert play.written(Leg.FIRST).written(Leg.FIRST).effects == [CopyTo(role.other), sent]


@pytest.mark.parametrize("first", [False, True])
def test_a_copy_to_itself_goes_to_the_arm_that_serves(first: bool) -> None:
    """The baseline against itself."""
    play = Play(replace(TERMS, assigned=Role.BASELINE, copy=True, to_itself=True, copy_first=first)).written(Leg.FIRST)
    assert [e for e in play.effects if isinstance(e, CopyTo)] == [CopyTo(Role.BASELINE)]


@pytest.mark.parametrize("first", [False, True])
def test_a_stand_in_is_not_copied(first: bool) -> None:
    """The candidate could not take the request, so it gets no copy of it either."""
    terms = replace(TERMS, copy=True, copy_first=first)
    play = Play(terms, candidate=Standing.UNREADY).written(Leg.FIRST)
    assert not any(isinstance(e, CopyTo) for e in play.effects)


@pytest.mark.parametrize("role", list(Role))
def test_a_request_that_is_not_sent_is_not_copied_before_either(role: Role) -> None:
    """The client waits no longer, or the baseline is full."""
    terms = replace(TERMS, assigned=role, copy=True, copy_first=True)
    assert not any(isinstance(e, CopyTo) for e in Play(replace(terms, deadline=99.0)).effects)
    if role is Role.BASELINE:
        assert not any(isinstance(e, CopyTo) for e in Play(terms, baseline=Standing.FULL).effects)


EVENTS = st.one_of(
    st.tuples(st.just("head"), st.sampled_from([200, 302, 400, 404, 429, 500, 503]), st.sampled_from([None, 10, 5000])),
    st.tuples(st.just("events"), st.just(200), st.none()),
    st.tuples(st.just("complete"), st.none(), st.none()),
    st.tuples(st.just("overflow"), st.none(), st.none()),
    st.tuples(st.just("lost"), st.sampled_from(list(Loss)), st.none()),
    st.tuples(st.just("written"), st.none(), st.none()),
    st.tuples(st.just("gone"), st.none(), st.none()),
    st.tuples(st.just("baseline"), st.sampled_from([ABLE, Standing.FULL]), st.none()),
    st.tuples(st.just("later"), st.floats(0.01, 9.0), st.none()),
)


@settings(max_examples=400)
@given(
    st.lists(EVENTS, max_size=12),
    st.sampled_from(list(Role)),
    st.sampled_from(list(Standing)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 100.5, 112.0]),
)
def test_whatever_happens_is_booked_once_and_answered_once(
    events: list[tuple[str, object, object]],
    assigned: Role,
    candidate: Standing,
    replayable: bool,
    copy: bool,
    copy_first: bool,
    deadline: float | None,
) -> None:
    """Two legs at most, one booking, one answer, and nothing repeated once the client has a byte."""
    terms = replace(
        TERMS, assigned=assigned, replayable=replayable, copy=copy, copy_first=copy_first, deadline=deadline
    )
    play = Play(terms, candidate=candidate)
    has_head: dict[Leg, bool] = {Leg.FIRST: False, Leg.SECOND: False}
    overtaken = 0
    for what, value, length in events:
        leg = play.exchange.leg
        if play.exchange.state is State.DONE:
            before = len(play.effects)
            play.lost(leg).overflow(leg).written(leg).gone()
            assert len(play.effects) == before
            break
        # Only what a connection can really report: one head per leg, a body or an end after it.
        match what:
            case "head" if not has_head[leg]:
                has_head[leg] = True
                play.head(leg, value, length=length)
            case "events" if not has_head[leg]:
                has_head[leg] = True
                play.head(leg, 200, length=None, events=True)
            case "complete" if has_head[leg]:
                play.complete(leg)
            case "overflow" if has_head[leg] and play.exchange.state is not State.STREAMING:
                play.overflow(leg)
            case "lost" if not (value in (Loss.STALE, Loss.LOCAL) and has_head[leg]):
                overtaken += value is Loss.STALE
                play.lost(leg, value)  # type: ignore[arg-type]  # drawn from Loss
            case "written":
                play.written(leg)
            case "gone":
                play.gone()
            case "baseline":
                play.baseline = value  # type: ignore[assignment]  # drawn from Standing
            case "later":
                play.now += value  # type: ignore[operator]  # drawn from floats
    sends = [e for e in play.effects if isinstance(e, Send)]
    replies = [e for e in play.effects if isinstance(e, Answer | Stream | Fail)]
    books = [e for e in play.effects if isinstance(e, Book)]
    assert len(sends) <= 2 + overtaken
    assert {s.role for s in sends[1:]} <= {Role.BASELINE}
    assert sum(isinstance(e, CopyTo) for e in play.effects) <= 1
    assert all(s.patience.total_s > 0 for s in sends)
    assert sum(s.counted for s in sends) <= 1
    assert len(replies) <= 1
    assert all(book.role is assigned for book in books)
    started = [i for i, e in enumerate(play.effects) if isinstance(e, Stream)]
    assert not any(isinstance(e, Send | Answer | Fail) for i in started for e in play.effects[i + 1 :])
    if play.exchange.state is State.DONE:
        dropped = any(isinstance(e, Drop) for e in play.effects)
        absent = assigned is Role.CANDIDATE and candidate is Standing.ABSENT
        assert len(books) == (0 if dropped or absent else 1)
        assert sum(isinstance(e, Saw) for e in play.effects) == 1
        gone = any(isinstance(e, Cancel) for e in play.effects)
        assert len(replies) == 1 or gone
