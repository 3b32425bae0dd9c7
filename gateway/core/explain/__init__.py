"""Why a rollout stands where it stands, in plain words for a tired person.

``explain`` makes a headline, facts in a fixed order and one thing to do next out of what is known. No sentence without
its number; a number that is missing is called missing. What somebody else wrote (a reason, a request id, what an arm
says of itself) is quoted, cut to a length and never interpreted.
"""

from gateway.core.explain.case import Case, Explained, Fact
from gateway.core.explain.sentences import explain

__all__ = ["Case", "Explained", "Fact", "explain"]
