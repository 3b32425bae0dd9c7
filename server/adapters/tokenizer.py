"""Tokenising in the front, with the model's own tokenizer and without torch."""

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

# Above this many characters tokenising takes longer than a probe should wait: about 4 us a character at worst.
INLINE_CHARACTERS: Final = 4096


class TokenizerFailed(Exception):
    """The folder's tokenizer.json cannot be used."""


class FolderTokenizer:
    """A Tokenizer (see ports) from ``tokenizer.json``. ``load`` before use."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tokenizer.json"
        self._tokenizer: Any = None
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenize")
        self.digest = ""

    def load(self) -> None:
        """Blocks for some milliseconds. Raises TokenizerFailed."""
        try:
            raw = self._path.read_bytes()
            tokenizer = Tokenizer.from_str(raw.decode("utf-8"))
        except Exception as error:  # the library raises Exception itself
            raise TokenizerFailed(f"model.path: {self._path} cannot be used: {error}") from error
        # The file may cut at the length its authors served. Here nothing is cut: too long is refused.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.digest = hashlib.sha256(raw).hexdigest()

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """See ports. Long input is tokenised aside, one request at a time, so that probes are answered meanwhile."""
        if sum(map(len, texts)) <= INLINE_CHARACTERS:
            return self._encode(list(texts))
        return await asyncio.get_running_loop().run_in_executor(self._aside, self._encode, list(texts))

    def close(self) -> None:
        self._aside.shutdown(wait=False, cancel_futures=True)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]
