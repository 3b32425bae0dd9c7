"""Tokenising in the front."""

import asyncio
import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.adapters.tokenizer import INLINE_CHARACTERS, FolderTokenizer, TokenizerFailed, words_are_tokens


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


def test_many_empty_texts_go_aside_too(tokenizer: FolderTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text costs something without a character."""
    threads: list[str] = []

    def encode(texts: list[str]) -> list[list[int]]:
        threads.append(threading.current_thread().name)
        return [[101, 102] for _ in texts]

    monkeypatch.setattr(tokenizer, "_encode", encode)
    assert len(asyncio.run(tokenizer.encode([""] * 10))) == 10
    assert len(asyncio.run(tokenizer.encode([""] * INLINE_CHARACTERS))) == INLINE_CHARACTERS
    assert [name.startswith("tokenize") for name in threads] == [False, True]
    tokenizer.close()


def test_who_gives_up_waiting_leaves_nothing_behind(
    tokenizer: FolderTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread works; those who wait for it stand in the loop, and a cancelled one is never tokenised."""
    began, release = threading.Event(), threading.Event()
    seen: list[str] = []
    submitted: list[object] = []
    submit = tokenizer._aside.submit

    def counted(*given: Any) -> Any:
        submitted.append(given)
        return submit(*given)

    def encode(texts: list[str]) -> list[list[int]]:
        seen.append(texts[0][:1])
        began.set()
        assert release.wait(20)
        return [[101, 102]]

    async def scenario() -> None:
        monkeypatch.setattr(tokenizer, "_encode", encode)
        monkeypatch.setattr(tokenizer._aside, "submit", counted)
        asked = [asyncio.create_task(tokenizer.encode([letter * (INLINE_CHARACTERS + 1)])) for letter in "abc"]
        await asyncio.to_thread(began.wait, 20)
        asked[0].cancel()
        asked[1].cancel()
        await asyncio.wait(asked[:2])
        assert (seen, len(submitted)) == (["a"], 1)
        release.set()
        async with asyncio.timeout(20):
            assert await asked[2] == [[101, 102]]
        assert seen == ["a", "c"]

    asyncio.run(scenario())
    tokenizer.close()


WORDS = [".", "'", "[", "[MASK]", "[CLS]", "word"]
PIECES = st.sampled_from(
    [
        *"aZ9  \t\n\r",
        "\u00a0",
        "\u2003",
        "\u200b",
        "\u0301",
        "\x00",
        "\x01",
        "\ufffd",
        "é",
        "東",
        "ﬁ",
        "\U0001f600",
        *WORDS,
    ]
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_the_sure_number_of_tokens_is_never_above_the_real_one(tokenizer: FolderTokenizer, text: str) -> None:
    """Accents and control characters vanish, special tokens stand in the text: the bound holds."""
    (ids,) = tokenizer._encode([text])
    assert tokenizer.at_least(text, 1000) <= len(ids)


def test_plain_words_are_counted_up_to_what_is_enough(tokenizer: FolderTokenizer) -> None:
    """With the special tokens; a word that may vanish does not count."""
    assert tokenizer.at_least("", 10) == 2
    assert tokenizer.at_least("one two \u0301\u0301 \x01 three", 10) == 5
    assert tokenizer.at_least("word " * 500, 17) == 17
    assert tokenizer.at_least("東" * 500, 17) == 2


BERT: dict[str, Any] = {
    "normalizer": {"type": "BertNormalizer"},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece"},
    "added_tokens": [{"content": "[MASK]"}],
}


@pytest.mark.parametrize(
    ("changes", "sure"),
    [
        ({}, True),
        ({"normalizer": None}, True),
        ({"normalizer": {"type": "Replace"}}, False),
        ({"pre_tokenizer": None}, False),
        ({"pre_tokenizer": {"type": "Metaspace"}}, False),
        ({"model": {"type": "Unigram"}}, False),
        ({"added_tokens": [{"content": "new york"}]}, False),
    ],
)
def test_words_count_only_under_rules_that_keep_them(changes: dict[str, Any], sure: bool) -> None:
    """A token that spans words, or a normalizer that drops letters, makes the bound wrong."""
    assert words_are_tokens({**BERT, **changes}) is sure
