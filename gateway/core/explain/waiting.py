"""What each hold means, and what a person should do about it, if anything."""

from dataclasses import dataclass
from typing import Final

from gateway.core.explain.case import ROLLBACK, Case, plain
from gateway.core.findings import Verdict, VerdictName

RESUME: Final = '`canaryctl resume --reason "..."`'
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
    "too_few": ("waits for more events", "Too little has been counted for a pass.", _THIN),
    "not_proven": (
        "waits for proof",
        "Enough has been counted, but it does not prove yet that the next weight is safe.",
        _THIN,
    ),
    "too_young": ("waits for time to pass", "The counts suffice; the step has to last longer.", WAIT),
    "suspect": (
        "something speaks against the candidate",
        "The evidence is above the warning line.",
        f"Look at the candidate now. The rollback comes by itself; {ROLLBACK} does not wait for it.",
    ),
    "breaker_rising": (
        "most of the candidate's attempts fail just now",
        "The candidate's breaker is up; it fires after a few seconds of this.",
        f"Look at the candidate now. The rollback comes by itself; {ROLLBACK} does not wait for it.",
    ),
    "baseline_out_of_slo": (
        "the baseline itself breaks the limit",
        "While the baseline is beyond the limit itself, nothing is proven about the candidate.",
        "Look at the baseline first. The candidate waits meanwhile.",
    ),
    "noise_floor": (
        "the tolerance lies in the baseline's own noise",
        "The baseline disagrees with itself in more pairs than the plan lets differ, so no pair of the arms tells a"
        " fault of the candidate.",
        f"Start a new run with a tolerance above that noise (`Missing` has the figures), or make the baseline's answers"
        f" repeatable; in this run nothing is loosened. {ROLLBACK} ends it.",
    ),
    "too_few_keys": (
        "too few keys, or one too heavy",
        "Requests are split by a key, and with few keys or a dominant one the arms differ by luck alone.",
        "Wait for more keys, or leave `key` out of the gateway's configuration: requests are then drawn one by one.",
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
            follows = "promotion" if case.run.is_last_step else "next step"
            return Waiting(
                short=f"passed, the {follows} follows", meaning="Every required metric is proven.", then=WAIT
            )
        case VerdictName.ROLL_BACK:
            return Waiting(short="is being rolled back", meaning=plain(verdict.text), then=WAIT)
        case VerdictName.INCONCLUSIVE:
            meaning = "The step lasted longer than the plan allows, without enough evidence either way."
            return Waiting(short="not settled in time", meaning=meaning, then="Decide: resume, roll back or override.")
        case VerdictName.HOLD:
            return _hold(verdict)


def _hold(verdict: Verdict) -> Waiting:
    reason, text = verdict.reason, plain(verdict.text)
    if reason not in _HOLDS:
        return Waiting(
            short=f"holds ({reason})", meaning=text, then="Read the sentence; `canaryctl status` has all numbers."
        )
    short, meaning, then = _HOLDS[reason]
    if reason in ("frozen", "judge_failed"):
        meaning = f"{meaning} {text}"
    if reason == "suspect" and verdict.evidence >= verdict.bar:
        meaning = "The evidence is at its bar; the bad events are not in enough windows yet."
    about = f", {verdict.metric}" if verdict.metric else ""
    return Waiting(short=f"{short} (hold: {reason}{about})", meaning=f"hold ({reason}): {meaning}", then=then)
