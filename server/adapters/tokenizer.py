"""Tokenising in the front, with the model's own tokenizer and without torch."""

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

# Above this work tokenising takes longer than a probe should wait: about 4 us a character at worst.
INLINE_CHARACTERS: Final = 4096
# What a text costs beside its characters, an empty one too: about 10 us at worst.
TEXT_CHARACTERS: Final = 4
# A word between blanks, from its first ASCII letter or digit on. BERT's normalizer may drop all of a word's accents
# and control characters, but never these, and its pre-tokenizer splits at these blanks: each match is a token or more.
_SURE_WORD: Final = re.compile(r"[A-Za-z0-9][^ \t\n\r]*")


class TokenizerFailed(Exception):
    """The folder's tokenizer.json cannot be used."""


class FolderTokenizer:
    """A Tokenizer (see ports) from ``tokenizer.json``. ``load`` before use.

    ``optional``: the model may be one that is not asked with text, so the file may be missing.
    """

    def __init__(self, folder: Path, *, optional: bool = False) -> None:
        self._path = folder / "tokenizer.json"
        self._optional = optional
        self._tokenizer: Any = None
        self._special = 0
        self._words_are_tokens = False
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenize")
        self._turn = asyncio.Lock()
        self.digest = ""

    @property
    def loaded(self) -> bool:
        return self._tokenizer is not None

    def load(self) -> None:
        """Blocks for some milliseconds. Raises TokenizerFailed."""
        if self._optional and not self._path.exists():
            return
        try:
            raw = self._path.read_bytes()
            text = raw.decode("utf-8")
            tokenizer = Tokenizer.from_str(text)
            self._words_are_tokens = words_are_tokens(json.loads(text))
        except Exception as error:  # the library raises Exception itself
            raise TokenizerFailed(f"model.path: {self._path} cannot be used: {error}") from error
        # The file may cut at the length its authors served. Here nothing is cut: too long is refused.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._special = int(tokenizer.num_special_tokens_to_add(False))
        self.digest = hashlib.sha256(raw).hexdigest()

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """See ports. Long input is tokenised aside, one request at a time, so that probes are answered meanwhile.

        Who waits for a turn waits in the loop: nothing is left behind when it is cancelled.
        """
        if sum(map(len, texts)) + TEXT_CHARACTERS * len(texts) <= INLINE_CHARACTERS:
            return self._encode(list(texts))
        await self._turn.acquire()
        running = asyncio.get_running_loop().run_in_executor(self._aside, self._encode, list(texts))
        # A thread cannot be cancelled: the turn lasts until it is done, whether or not anybody still waits.
        running.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(running)

    def at_least(self, text: str, enough: int) -> int:
        """See ports."""
        words = max(0, enough - self._special) if self._words_are_tokens else 0
        return self._special + sum(1 for _ in islice(_SURE_WORD.finditer(text), words))

    def close(self) -> None:
        self._aside.shutdown(wait=False, cancel_futures=True)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]


def words_are_tokens(document: Any) -> bool:
    """Whether each word between blanks gives a token or more: BERT's rules, and no added token that spans words."""
    return (
        (document.get("normalizer") or {}).get("type") in ("BertNormalizer", None)
        and (document.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and (document.get("model") or {}).get("type") == "WordPiece"
        and not any(re.search(r"\s", added["content"]) for added in document.get("added_tokens") or [])
    )
