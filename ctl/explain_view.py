"""The explanation as text: what happened, the facts, what to do next."""

from ctl.layout import paragraph, printable
from wire.admin import Explanation


def full(explanation: Explanation) -> str:
    """Headline, facts and next step in three blocks, as wide as the terminal, at most 100 columns."""
    facts: list[str] = []
    for fact in explanation.facts:
        facts += paragraph(printable(fact.label), printable(fact.text))
    blocks = [
        paragraph("", printable(explanation.headline), indent=0),
        facts,
        paragraph("Next", printable(explanation.next)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)
