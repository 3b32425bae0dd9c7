"""A replay as text: the verdicts in their order, the last one, and whether all was as then."""

from ctl.layout import clock, figure, paragraph, percent, printable, table
from wire.admin import Replay, ReplayedDecision


def full(replay: Replay) -> str:
    """At most 100 columns."""
    by = "its own plan" if replay.other_plan is None else f"another plan (preset {replay.other_plan})"
    head = paragraph("", f"Run {printable(replay.run_id)}, {replay.windows} windows judged again by {by}.", indent=0)
    heads = ("Time", "Live", "Verdict", "Reason", "Metric", "E")
    rows = [
        (
            clock(seen.at),
            percent(seen.weight),
            seen.verdict,
            printable(seen.reason),
            printable(seen.metric or "-"),
            figure(seen.evidence, 3),
        )
        for seen in replay.changes
    ]
    lines = table([(name, ">" if name in ("Live", "E") else "<") for name in heads], rows)
    if replay.left_out:
        lines.append(f"  and {replay.left_out} more changes")
    facts: list[str] = []
    if replay.final is not None:
        last = replay.final
        said = f"{last.verdict} at {percent(last.weight)}, {clock(last.at)}: {printable(last.text)}"
        facts += paragraph("Final", said)
    facts += paragraph("As then", _as_then(replay))
    for decision in replay.decisions:
        facts += paragraph("", _decision(decision))
    for label, texts in (("Missing", replay.holes), ("Note", replay.notes)):
        for number, text in enumerate(texts):
            facts += paragraph("" if number else label, printable(text))
    return "\n\n".join("\n".join(block) for block in (head, lines, facts))


def _as_then(replay: Replay) -> str:
    if replay.other_plan is not None:
        return "not asked: another plan; it is held to the weights and the copies of the recorded run"
    if replay.holes:
        return "cannot be said: the recording has holes"
    if replay.same is None:
        return "nothing had been decided by the judge"
    return "yes, every number of every decision" if replay.same else "NO"


def _decision(decision: ReplayedDecision) -> str:
    found = "no look recorded" if decision.differs is None else ", ".join(decision.differs) or "the same"
    return f"{decision.kind} {clock(decision.at)}: {'differs in ' if decision.differs else ''}{found}"
