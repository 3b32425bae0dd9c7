"""What each hold means, and what a person should do about it, if anything."""

from dataclasses import dataclass
from typing import Final

from gateway.core.explain.case import Case, quoted
from gateway.core.findings import VerdictName

ROLLBACK: Final = '`canaryctl rollback --reason "..."`'
WAIT: Final = "Nothing. It goes on by itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """short: for the headline. meaning: a sentence. then: what to do."""

    short: str
    meaning: str
    then: str


_THIN: Final = f"{WAIT} Where traffic is thin, a later plan may raise `copies.share`."
_HOLDS: Final = {
    "no_data": (
        "no data from an arm",
        "An arm reported nothing lately, and no data is never a pass.",
        "See that traffic comes in and that both arms are ready: `canaryctl status`.",
    ),
    "too_few": ("waits for more events", "Too little has been counted to say anything.", _THIN),
    "not_proven": (
        "waits for proof",
        "Enough has been counted, but it does not prove yet that the next weight is safe.",
        _THIN,
    ),
    "too_young": ("waits for time to pass", "The counts suffice; the step has to last longer.", WAIT),
    "suspect": (
        "something speaks against the candidate",
        "What was seen is above the warning line and below the bar.",
        f"Look at the candidate now. The rollback comes by itself at the bar; {ROLLBACK} does not wait for it.",
    ),
    "baseline_out_of_slo": (
        "the baseline itself breaks the limit",
        "While the baseline is beyond the limit itself, nothing is proven about the candidate.",
        "Look at the baseline first. The candidate waits meanwhile.",
    ),
    "refused_unchecked": (
        "refusals nobody could check",
        "The candidate refused requests that could not be put to the baseline, so nobody knows who is right.",
        "Look at large requests with a 4xx answer: those above `limits.replay_buffer` cannot be asked twice.",
    ),
    "shared_outage": (
        "both arms fail",
        "Both breakers are up. Moving traffic would help nobody, so the weight stays.",
        f"Look at what the arms share: network, storage, clients. {ROLLBACK} works all the while.",
    ),
    "frozen": (
        "the evidence is complete, but the gateway holds",
        "Every metric is proven; something of the gateway's own keeps the step from being taken.",
        "Put that right; the step is then taken by itself.",
    ),
    "judge_failed": (
        "the judge failed",
        "The judge raised an error. Nothing advances until it runs; breakers and rollback work all the while.",
        "Read the gateway's log at the event judge_failed and report it.",
    ),
}


def waiting(case: Case) -> Waiting:
    """In words: the present verdict of an open run."""
    verdict = case.verdict
    if verdict is None:
        return Waiting(short="not judged yet", meaning="The judge has not looked at this step yet.", then=WAIT)
    match verdict.name:
        case VerdictName.ADVANCE:
            return Waiting(short="passed, the next step follows", meaning="Every required metric is proven.", then=WAIT)
        case VerdictName.ROLL_BACK:
            return Waiting(short="is being rolled back", meaning=quoted(verdict.text), then=WAIT)
        case VerdictName.INCONCLUSIVE:
            meaning = "The step lasted longer than the plan allows, without enough evidence either way."
            return Waiting(short="not settled in time", meaning=meaning, then="Decide: resume, roll back or override.")
        case VerdictName.HOLD:
            return _hold(verdict.reason, str(verdict.metric or ""), quoted(verdict.text))


def _hold(reason: str, metric: str, text: str) -> Waiting:
    if reason not in _HOLDS:
        return Waiting(
            short=f"holds ({reason})", meaning=text, then="Read the sentence; `canaryctl status` has all numbers."
        )
    short, meaning, then = _HOLDS[reason]
    if reason in ("frozen", "judge_failed"):
        meaning = f"{meaning} {text}"
    about = f", {metric}" if metric else ""
    return Waiting(short=f"{short} (hold: {reason}{about})", meaning=f"hold ({reason}): {meaning}", then=then)
