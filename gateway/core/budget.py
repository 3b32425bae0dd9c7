"""A bounded amount of something that requests hold for a while: bytes of kept bodies, requests in flight."""


class Budget:
    """``take`` and ``give`` must be paired; what is taken never exceeds ``limit``."""

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"limit: {limit} must be 0 or more")
        self.limit = limit
        self.taken = 0

    def take(self, amount: int) -> bool:
        """Hold ``amount`` more; False, and nothing is held, when that would exceed the limit."""
        if self.taken + amount > self.limit:
            return False
        self.taken += amount
        return True

    def give(self, amount: int) -> None:
        """Give back ``amount``. ValueError when more is given back than was taken."""
        if not 0 <= amount <= self.taken:
            raise ValueError(f"amount: {amount} must lie between 0 and {self.taken}")
        self.taken -= amount
