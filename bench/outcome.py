"""How a rule ended on one run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Seconds into the run, None for never.

    rolled_back_at: where the rule rolls back if it is left running after it has passed. passed_at: where it would
        first have let the candidate on. metric, rule: what a rollback names, empty without one.
    """

    rolled_back_at: int | None
    passed_at: int | None
    metric: str = ""
    rule: str = ""

    @property
    def passed_first(self) -> bool:
        """The candidate was let on before any rollback."""
        return self.passed_at is not None and (self.rolled_back_at is None or self.passed_at < self.rolled_back_at)
