import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.routes import PROFILES, SCAN_BYTES, Kind, Routes, asks_for_events, scan_model

MINE = b'{"model":"m","input":"x"}'


@pytest.mark.parametrize(
    ("profile", "method", "path", "body", "kind"),
    [
        ("ours", "POST", "/v1/embeddings", MINE, Kind.JUDGED),
        ("ours", "POST", "/v1/embeddings", b'{"model":"other"}', Kind.PINNED),
        ("ours", "POST", "/v1/embeddings", b"no json", Kind.PINNED),
        ("ours", "GET", "/v1/embeddings", MINE, Kind.PINNED),
        ("ours", "POST", "/v1/embeddings/", MINE, Kind.PINNED),
        ("ours", "POST", "/v2/models/m/infer", b"", Kind.JUDGED),
        ("ours", "POST", "/v2/models/m/versions/3/infer", b"", Kind.JUDGED),
        ("ours", "POST", "/v2/models/other/infer", b"", Kind.PINNED),
        ("ours", "POST", "/v2/models/m/infer/more", b"", Kind.PINNED),
        ("ours", "GET", "/v2/models/m", b"", Kind.PINNED),
        ("ours", "GET", "/v2", b"", Kind.PINNED),
        ("ours", "GET", "/v2/health/live", b"", Kind.OWN),
        ("ours", "GET", "/v2/health/ready", b"", Kind.OWN),
        ("ours", "GET", "/metrics", b"", Kind.PINNED),
        ("triton", "POST", "/v2/models/m/generate_stream", b"", Kind.JUDGED),
        ("vllm", "POST", "/v1/chat/completions", MINE, Kind.JUDGED),
        ("tei", "POST", "/embed", b'{"inputs":"x"}', Kind.JUDGED),
        ("kserve", "POST", "/v1/models/m:predict", b"", Kind.JUDGED),
        ("kserve", "POST", "/v1/models/other:predict", b"", Kind.PINNED),
        ("openai", "POST", "/v1/completions", MINE, Kind.JUDGED),
        ("custom", "POST", "/anything", b"", Kind.JUDGED),
        ("custom", "GET", "/anything", b"", Kind.PINNED),
    ],
)
def test_kind(profile: str, method: str, path: str, body: bytes, kind: Kind) -> None:
    """Inference for the rollout's model is judged, the gateway's health its own, everything else pinned."""
    assert Routes(profile, "m").kind(method, path, body) is kind


def test_a_model_name_may_be_escaped_in_the_path() -> None:
    """A percent-encoded model segment names the same model."""
    assert Routes("ours", "org/m").kind("POST", "/v2/models/org%2Fm/infer", b"") is Kind.JUDGED


def test_unknown_profile() -> None:
    """An unknown profile is refused with the allowed ones."""
    with pytest.raises(ValueError, match=r"profile: 'nope' is not allowed; one of ours, triton"):
        Routes("nope", "m")


def test_every_profile_says_when_it_is_ready() -> None:
    """Each profile has an absolute readiness path."""
    assert all(profile.ready_path.startswith("/") for profile in PROFILES.values())


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"model":"m"}', "m"),
        (b' \n{ "input" : ["a","b"] , "model" : "m" }', "m"),
        (b'{"input":{"model":"nested"},"model":"m"}', "m"),
        (b'{"input":{"model":"nested"}}', None),
        (b'{"input":[{"model":"nested"}]}', None),
        (b'{"input":"\\"model\\":\\"fake\\"","model":"m"}', "m"),
        (b'{"input":"{\\"model\\":\\"fake\\"}"}', None),
        (b'{"input":"model","x":"m"}', None),
        (b'{"input":"}}}{{{","model":"m"}', "m"),
        (b'{"model":1}', None),
        (b'{"model":null,"x":"y"}', None),
        (b'{"model":"a\\u0062"}', None),
        (b'["model","m"]', None),
        (b'{"a":1}{"model":"m"}', None),
        (b'{"input":"cut of', None),
        (b'{"input":"cut \\"off', None),
        (b"", None),
        ('{"model":"modèle"}'.encode(), "modèle"),
    ],
)
def test_scan(body: bytes, model: str | None) -> None:
    """Only a top-level string field called model names the model."""
    assert scan_model(body) == model


def test_scan_is_bounded() -> None:
    """A model field beyond the first 4 KiB is not seen."""
    filler = b"x" * SCAN_BYTES
    assert scan_model(b'{"input":"' + filler + b'","model":"m"}') is None
    assert scan_model(b'{"model":"m","input":"' + filler + b'"}') == "m"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["model", "a", "input"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["input", "model", "x"]), JSON))
def test_scan_agrees_with_a_parser(document: dict[str, object]) -> None:
    """On any JSON object the scanner finds what a parser finds, or nothing; never another name."""
    body = json.dumps(document, ensure_ascii=False).encode()
    found = scan_model(body)
    assert found is None or found == document.get("model")
    name = document.get("model")
    if isinstance(name, str) and name.isalnum() and len(body) < SCAN_BYTES:
        assert found == name


@given(st.binary(max_size=300))
def test_scan_takes_any_bytes(body: bytes) -> None:
    """No input makes the scanner fail."""
    found = scan_model(body)
    assert found is None or isinstance(found, str)


def test_scan_is_linear_on_hostile_input() -> None:
    """Quotes and backslashes without end are passed over once: each of these would take hours to backtrack."""
    for body in (b'{"' + b"\\" * 4094, b'{"a' * 1300, b"{" + b'"\\"' * 1300, b"{" * 4096):
        assert scan_model(body) is None


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        (b'{"model":"m","stream":true}', True),
        (b'{"messages":[' + b'{"role":"user","content":"x"},' * 5000 + b'{}],"stream" : true}', True),
        (b'{"stream":false}', False),
        (b'{"stream":"true"}', False),
        (b'{"stream":truely}', False),
        (b'{"stream_options":{"include_usage":true}}', False),
        (b'{"content":"say \\"stream\\": true"}', False),
        (b'{"stop":"stream","stream":true}', True),
        (b'"stream"' * 100_000 + b": true", False),
        (b"", False),
    ],
)
def test_a_request_that_asks_for_events_is_known_by_its_body(body: bytes, asks: bool) -> None:
    """Wherever the key stands, unless it is quoted; a body that repeats it is not searched for ever."""
    assert asks_for_events(body) is asks
