"""Tokenising in the front."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from server.adapters.tokenizer import INLINE_CHARACTERS, FolderTokenizer, TokenizerFailed


@pytest.fixture
def tokenizer(model_folder: Path) -> FolderTokenizer:
    loaded = FolderTokenizer(model_folder)
    loaded.load()
    return loaded


def test_texts_get_the_models_special_tokens(tokenizer: FolderTokenizer) -> None:
    """[CLS] first and [SEP] last, an empty text too."""
    hello, empty = asyncio.run(tokenizer.encode(["Hello world", ""]))
    assert hello == [101, 7592, 2088, 102]
    assert empty == [101, 102]


def test_nothing_is_cut_and_nothing_is_padded(tokenizer: FolderTokenizer) -> None:
    """The file says 128; what does not fit is for the catalogue to refuse."""
    short, long = asyncio.run(tokenizer.encode(["a", "word " * 500]))
    assert len(short) == 3
    assert len(long) == 502


def test_long_input_gives_the_same_ids_as_short_input(tokenizer: FolderTokenizer) -> None:
    """Aside or inline, the ids are the same."""
    text = "naive café " * 30

    async def both() -> tuple[list[int], list[int]]:
        (inline,) = await tokenizer.encode([text])
        aside, _ = await tokenizer.encode([text, "x" * INLINE_CHARACTERS])
        return inline, aside

    inline, aside = asyncio.run(both())
    assert inline == aside
    tokenizer.close()


def test_the_digest_is_of_the_file(tokenizer: FolderTokenizer, model_folder: Path) -> None:
    """It becomes part of the identity."""
    assert tokenizer.digest == hashlib.sha256((model_folder / "tokenizer.json").read_bytes()).hexdigest()


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"])
def test_a_folder_without_a_usable_tokenizer_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """The sentence names the file."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerFailed, match=r"tokenizer\.json"):
        FolderTokenizer(tmp_path).load()
