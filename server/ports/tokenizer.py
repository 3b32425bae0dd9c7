"""Texts to token ids."""

from collections.abc import Sequence
from typing import Protocol


class Tokenizer(Protocol):
    @property
    def loaded(self) -> bool:
        """Whether there is one: a model that is asked with its own tensors needs none."""
        ...

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text with the model's special tokens; nothing is truncated or padded."""
        ...

    def at_least(self, text: str, enough: int) -> int:
        """A number of tokens, special ones included, that ``text`` has for certain, found without tokenising it.

        Counting ends at ``enough``. 0 is always right.
        """
        ...
