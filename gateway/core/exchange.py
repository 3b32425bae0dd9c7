"""One client request as a machine without IO: events in, effects out, the clock passed in.

It holds every rule about who answers and who is charged (booking). Whoever drives it owns sockets, queues and
counters and decides nothing. States:

    FIRST ──head──▶ held until complete ──▶ DONE            the first arm answers
      │ │                  └─ too large, event stream ─▶ STREAMING ─▶ DONE
      │ └─ candidate's 4xx, complete ──▶ CHECKING ──▶ DONE  the baseline is asked whether it refuses too
      └─ failed before the client got a byte ──▶ SECOND ──▶ DONE (or STREAMING)
    FIRST on the baseline in the candidate's place (stand-in) is booked for the candidate and never for the baseline.

Rules that must survive any edit: at most two legs are written; the second goes to the baseline and books nothing for
it; the first leg is booked exactly once; the request is copied at most once; after the client got a byte nothing is
repeated. A leg that routing overtook before it was written does not count: it is sent to whoever is the baseline now.
"""

from dataclasses import dataclass
from enum import Enum

from gateway.core.classify import TIMEOUTS, Loss, answered, is_accepted, is_failure, is_refusal, lost, phase_of
from gateway.core.effects import (
    NOTHING,
    Answer,
    Book,
    Break,
    Cancel,
    CopyTo,
    Discard,
    Drop,
    Effects,
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
from gateway.core.leg import Head, Patience
from gateway.core.types import Outcome, Phase, Role


class State(Enum):
    NEW = "new"
    FIRST = "first"
    SECOND = "second"
    CHECKING = "checking"
    STREAMING = "streaming"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is known of a request before it is sent.

    deadline: monotonic time at which the client stops waiting, None when it did not say.
    slowest_limit_s: the plan's largest latency limit, 0 when it has none.
    copy: it was sampled to be copied to the other arm; with ``to_itself`` to the arm that serves it.
    copy_first: the copy is sent before the request, in the same turn; else right after it.
    """

    judged: bool
    assigned: Role
    replayable: bool
    deadline: float | None
    slowest_limit_s: float
    copy: bool
    baseline: Patience
    candidate: Patience | None
    answer_hold: int
    to_itself: bool = False
    copy_first: bool = False


class Exchange:
    """Events are methods; each returns what is to be done, in order. Events after DONE change nothing."""

    __slots__ = (
        "_booked",
        "_copied",
        "_head",
        "_instead",
        "_patience",
        "_role",
        "_second_head",
        "leg",
        "state",
        "terms",
    )

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.state = State.NEW
        self.leg = Leg.FIRST
        self._role = Role.BASELINE
        self._patience = terms.baseline
        self._head: Head | None = None
        self._second_head: Head | None = None
        self._booked = not terms.judged
        self._copied = not terms.copy
        self._instead: Instead | None = None

    @property
    def instead(self) -> Instead | None:
        """Why the baseline answers in the candidate's place; None when it does not."""
        return self._instead

    def start(self, now: float, *, candidate: Standing, baseline: Standing) -> Effects:
        """The request is here, whole or with its head."""
        terms = self.terms
        if terms.judged and terms.assigned is Role.CANDIDATE:
            if candidate is Standing.ABLE and terms.candidate is not None:
                self._patience = self._candidate_patience(terms.candidate, now)
                if self._patience.total_s <= 0:
                    return self._fail(FailReason.DEADLINE, Outcome.CANCELLED)
                self.state, self._role = State.FIRST, Role.CANDIDATE
                return self._send_first(counted=True)
            return self._stand_in(now, candidate, baseline)
        if (refused := _unable(baseline)) is not None:
            return self._fail(refused, Outcome.UNAVAILABLE)
        self._patience = self._within_deadline(terms.baseline, now)
        if self._patience.total_s <= 0:
            return self._fail(FailReason.DEADLINE, Outcome.CANCELLED)
        self.state = State.FIRST
        return self._send_first(counted=terms.judged)

    def on_written(self, leg: Leg) -> Effects:
        """The leg is on its way, perhaps again on a fresh connection. Now its copy is made, unless it went before."""
        serves_its_own = leg is Leg.FIRST and self._role is self.terms.assigned
        return self._copy() if serves_its_own and self.state is State.FIRST else NOTHING

    def _send_first(self, *, counted: bool) -> Effects:
        """Nothing waits for a copy: what it costs the request is the work of writing it, and half of the pairs pay it,
        so that which side is sent first cancels out of what is said of their latencies.
        """
        send = Send(Leg.FIRST, self._role, self._patience, counted)
        return (*self._copy(), send) if self.terms.copy_first else (send,)

    def _copy(self) -> Effects:
        if self._copied:
            return NOTHING
        self._copied = True
        return (CopyTo(self._role if self.terms.to_itself else self._role.other),)

    def on_head(self, leg: Leg, head: Head, now: float, *, baseline: Standing) -> Effects:
        """Status and headers of an answer."""
        if leg is not self.leg or self.state not in (State.FIRST, State.SECOND, State.CHECKING):
            return NOTHING
        if leg is Leg.SECOND:
            self._second_head = head
        else:
            self._head = head
            if self._role is Role.CANDIDATE and self.terms.replayable:
                if is_failure(head.status):
                    return (Discard(leg), *self._fail_over(now, Outcome.FAILED, baseline, Phase.STATUS, head))
                if is_refusal(head.status):
                    return NOTHING
        if self.state is State.CHECKING:
            return self._checked_at_head(head)
        if head.event_stream or (head.length or 0) > self.terms.answer_hold:
            return self._stream(leg)
        return NOTHING

    def on_overflow(self, leg: Leg) -> Effects:
        """The held answer has grown beyond ``answer_hold``."""
        if leg is not self.leg or self.state not in (State.FIRST, State.SECOND, State.CHECKING):
            return NOTHING
        if self.state is State.CHECKING and self._second_head is not None:
            return (*self._verdict_of_check(self._second_head), *self._stream(leg))
        head = self._head
        if leg is Leg.FIRST and head is not None and self._is_open_refusal(head):
            # Too large to keep while the baseline is asked, so it stays unchecked.
            return (*self._book(Outcome.REFUSED_UNCHECKED, head), *self._stream(leg))
        return self._stream(leg)

    def on_complete(self, leg: Leg, now: float, *, baseline: Standing) -> Effects:
        """The leg's answer is complete."""
        if leg is not self.leg or self.state is State.DONE:
            return NOTHING
        head = self._second_head if leg is Leg.SECOND else self._head
        assert head is not None
        if self.state is State.STREAMING:
            return self._done(EndStream(), head)
        if self.state is State.CHECKING:
            if is_failure(head.status):
                return self._answer_unchecked()
            return (*self._verdict_of_check(head), *self._done(Answer(leg), head))
        if leg is Leg.FIRST and self._is_open_refusal(head):
            return self._check(now, baseline)
        return self._done(Answer(leg), head)

    def on_lost(self, leg: Leg, loss: Loss, now: float, *, baseline: Standing) -> Effects:
        """The leg ended without a complete answer."""
        if leg is not self.leg or self.state is State.DONE:
            return NOTHING
        if self.state is State.STREAMING:
            self.state = State.DONE
            outcome = lost(loss, cut_short=self._is_cut_short(loss))
            return (Break(), *self._book(outcome, phase=Phase.BODY), *self._saw(Outcome.FAILED))
        if loss is Loss.STALE or (loss is Loss.LOCAL and self._role is Role.CANDIDATE and leg is Leg.FIRST):
            return self._not_written(now, baseline)
        if self.state is State.CHECKING:
            return self._answer_unchecked()
        outcome = lost(loss, cut_short=self._is_cut_short(loss))
        head = self._second_head if leg is Leg.SECOND else self._head
        phase = phase_of(loss, answering=head is not None)
        if self._role is Role.CANDIDATE and leg is Leg.FIRST and self.terms.replayable:
            return self._fail_over(now, outcome, baseline, phase)
        return self._fail(self._reason(loss, now), outcome, phase)

    def on_client_gone(self) -> Effects:
        """Nobody waits any more. Counts nowhere, unless a limit had passed (that is counted when it passes)."""
        if self.state is State.DONE:
            return NOTHING
        legs = () if self.state is State.NEW else (Cancel(self.leg),)
        self.state = State.DONE
        return (*legs, *self._book(Outcome.CANCELLED), *self._saw(Outcome.CANCELLED))

    # Who answers.

    def _stand_in(self, now: float, candidate: Standing, baseline: Standing) -> Effects:
        """The candidate cannot take its request: the baseline serves it, and the candidate is charged."""
        booked: Effects = NOTHING
        if candidate is Standing.ABSENT:
            self._booked = True
        else:
            self._instead = Instead.UNAVAILABLE
            booked = self._book(Outcome.UNAVAILABLE)
        return (*booked, *self._baseline_instead(Leg.FIRST, now, baseline))

    def _not_written(self, now: float, baseline: Standing) -> Effects:
        """Routing changed while the leg waited, or the gateway itself could not open a connection to the candidate:
        nothing of it is booked, and the present baseline gets the request.
        """
        if self.state is State.CHECKING:
            return self._check(now, baseline)
        dropped: Effects = NOTHING if self._booked else (Drop(),)
        self._booked = True
        leg = Leg.SECOND if self._role is Role.CANDIDATE else self.leg
        return (*dropped, *self._baseline_instead(leg, now, baseline))

    def _fail_over(
        self, now: float, outcome: Outcome, baseline: Standing, phase: Phase, head: Head | None = None
    ) -> Effects:
        self._instead = Instead.FAILED
        return (*self._book(outcome, head, phase=phase), *self._baseline_instead(Leg.SECOND, now, baseline))

    def _baseline_instead(self, leg: Leg, now: float, baseline: Standing) -> Effects:
        self.leg, self._role = leg, Role.BASELINE
        if (refused := _unable(baseline)) is not None:
            return self._fail(refused, Outcome.UNAVAILABLE)
        self._patience = self._within_deadline(self.terms.baseline, now)
        if self._patience.total_s <= 0:
            return self._fail(FailReason.DEADLINE, Outcome.CANCELLED)
        self.state = State.FIRST if leg is Leg.FIRST else State.SECOND
        return (Send(leg, Role.BASELINE, self._patience, counted=False),)

    def _check(self, now: float, baseline: Standing) -> Effects:
        patience = self._within_deadline(self.terms.baseline, now)
        if _unable(baseline) is not None or patience.total_s <= 0:
            return self._answer_unchecked()
        self.state, self.leg, self._patience = State.CHECKING, Leg.SECOND, patience
        return (Send(Leg.SECOND, Role.BASELINE, patience, counted=False),)

    def _checked_at_head(self, head: Head) -> Effects:
        """An answer that cannot be held decides the check with its status."""
        if is_failure(head.status):
            return (Discard(Leg.SECOND), *self._answer_unchecked())
        if head.event_stream or (head.length or 0) > self.terms.answer_hold:
            return (*self._verdict_of_check(head), *self._stream(Leg.SECOND))
        return NOTHING

    def _verdict_of_check(self, head: Head) -> Effects:
        self._role = Role.BASELINE
        self._instead = Instead.REFUSED
        return self._book(Outcome.REFUSED if is_accepted(head.status) else Outcome.CLIENT_FAULT, self._head)

    def _answer_unchecked(self) -> Effects:
        """The baseline could not say whether it refuses too: the client gets the candidate's refusal."""
        assert self._head is not None
        self.leg, self._role = Leg.FIRST, Role.CANDIDATE
        return (*self._book(Outcome.REFUSED_UNCHECKED, self._head), *self._done(Answer(Leg.FIRST), self._head))

    def _stream(self, leg: Leg) -> Effects:
        self.state = State.STREAMING
        head = self._second_head if leg is Leg.SECOND else self._head
        events = head is not None and head.event_stream
        counted = events and not self._booked and head is not None and is_accepted(head.status)
        return (Stream(leg, events, counted),)

    def _fail(self, reason: FailReason, outcome: Outcome, phase: Phase | None = None) -> Effects:
        self.state = State.DONE
        after_failover = self._instead is Instead.FAILED
        return (Fail(reason, after_failover), *self._book(outcome, phase=phase), *self._saw(Outcome.FAILED))

    # Who is charged.

    def _done(self, answer: Answer | EndStream, head: Head) -> Effects:
        self.state = State.DONE
        outcome = answered(head.status)
        failed_over: Effects = NOTHING
        if self._instead in (Instead.FAILED, Instead.UNAVAILABLE) and outcome is not Outcome.FAILED:
            failed_over = (FailedOver(),)
        own = outcome
        if outcome is Outcome.CLIENT_FAULT and not self.terms.replayable:
            own = Outcome.REFUSED_UNCHECKED  # for the baseline, too: this is the rate that the candidate's is held to
        booked = self._book(own, head, phase=Phase.STATUS)
        return (answer, *booked, *failed_over, *self._saw(outcome))

    def _book(self, outcome: Outcome, head: Head | None = None, *, phase: Phase | None = None) -> Effects:
        """phase: how far it came, if the outcome is a failure."""
        if self._booked:
            return NOTHING
        self._booked = True
        compiles, compiled = (head.compiles, head.compiled) if head is not None else (0, ())
        failed_in = phase if outcome is Outcome.FAILED else None
        return (Book(self.terms.assigned, outcome, compiles, compiled, failed_in),)

    def _saw(self, outcome: Outcome) -> Effects:
        return (Saw(self._role, outcome),) if self.terms.judged else NOTHING

    def _is_open_refusal(self, head: Head) -> bool:
        return self._role is Role.CANDIDATE and self.terms.replayable and is_refusal(head.status)

    # How long to wait.

    def _within_deadline(self, patience: Patience, now: float) -> Patience:
        deadline = self.terms.deadline
        if deadline is None:
            return patience
        left = deadline - now
        return Patience(min(patience.first_byte_s, left), min(patience.total_s, left))

    def _candidate_patience(self, patience: Patience, now: float) -> Patience:
        """The candidate may use half of the client's time, or as long as the plan calls in time, if that is more."""
        deadline = self.terms.deadline
        if deadline is None or not self.terms.replayable:
            return self._within_deadline(patience, now)
        left = deadline - now
        first_byte_s = min(patience.first_byte_s, max(left / 2, self.terms.slowest_limit_s), left)
        return Patience(first_byte_s, min(patience.total_s, left))

    def _is_cut_short(self, loss: Loss) -> bool:
        plan = self.terms.candidate if self._role is Role.CANDIDATE else self.terms.baseline
        assert plan is not None
        if loss is Loss.TOTAL_TIMEOUT:
            return self._patience.total_s < plan.total_s
        return self._patience.first_byte_s < plan.first_byte_s

    def _reason(self, loss: Loss, now: float) -> FailReason:
        if loss in (Loss.REFUSED, Loss.LOCAL) and self._role is Role.BASELINE:
            return FailReason.BASELINE_UNAVAILABLE
        if loss not in TIMEOUTS:
            return FailReason.UPSTREAM_FAILED
        deadline = self.terms.deadline
        # A timer may fire a moment before the deadline it was set for.
        if deadline is not None and now >= deadline - 0.002:
            return FailReason.DEADLINE
        return FailReason.UPSTREAM_TIMEOUT


def _unable(baseline: Standing) -> FailReason | None:
    """Only its limit keeps a request from the baseline: there is nothing better to send it to."""
    return FailReason.BASELINE_FULL if baseline is Standing.FULL else None
