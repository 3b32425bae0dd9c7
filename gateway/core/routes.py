"""Which requests are evidence. Arm profiles are data; the model's name comes from the path or the body's first bytes.

judged: inference for the model of the rollout: split, copied, counted.
pinned: everything else that an arm may answer: always the baseline, never counted.
own:    health on the data port, answered for the gateway itself.
"""

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final
from urllib.parse import unquote

SCAN_BYTES: Final = 4096
"""How much of a body is looked at for the model's name."""


class Kind(StrEnum):
    JUDGED = "judged"
    PINNED = "pinned"
    OWN = "own"


class ModelIn(Enum):
    """Where a route names its model. NOWHERE: the server has one model, so every request is for it."""

    PATH = "path"
    BODY = "body"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class JudgedRoute:
    """``path`` with ``{model}`` and ``{version}`` each standing for one segment (or its part before a colon)."""

    path: str
    model_in: ModelIn
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a kind of server offers. ``ready_path`` answers 200 when, and only when, inference would be served."""

    name: str
    ready_path: str
    judged: tuple[JudgedRoute, ...]
    every_post: bool = False
    """Every POST is judged, whatever its path: for servers of which nothing is known."""


_OIP = (
    JudgedRoute("/v2/models/{model}/infer", ModelIn.PATH),
    JudgedRoute("/v2/models/{model}/versions/{version}/infer", ModelIn.PATH),
)
_EMBEDDINGS = JudgedRoute("/v1/embeddings", ModelIn.BODY)
_COMPLETIONS = (
    JudgedRoute("/v1/chat/completions", ModelIn.BODY),
    JudgedRoute("/v1/completions", ModelIn.BODY),
)

PROFILES: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile("ours", "/v2/health/ready", (_EMBEDDINGS, *_OIP)),
        Profile(
            "triton",
            "/v2/health/ready",
            (
                *_OIP,
                JudgedRoute("/v2/models/{model}/generate", ModelIn.PATH),
                JudgedRoute("/v2/models/{model}/generate_stream", ModelIn.PATH),
            ),
        ),
        Profile(
            "vllm",
            "/health",
            (
                _EMBEDDINGS,
                *_COMPLETIONS,
                JudgedRoute("/pooling", ModelIn.BODY),
                JudgedRoute("/score", ModelIn.BODY),
                JudgedRoute("/rerank", ModelIn.BODY),
            ),
        ),
        Profile(
            "tei",
            "/health",
            (
                _EMBEDDINGS,
                JudgedRoute("/embed", ModelIn.NOWHERE),
                JudgedRoute("/embed_sparse", ModelIn.NOWHERE),
                JudgedRoute("/rerank", ModelIn.NOWHERE),
                JudgedRoute("/predict", ModelIn.NOWHERE),
            ),
        ),
        Profile("kserve", "/v2/health/ready", (*_OIP, JudgedRoute("/v1/models/{model}:predict", ModelIn.PATH))),
        Profile("openai", "/v1/models", (_EMBEDDINGS, *_COMPLETIONS)),
        Profile("custom", "/", (), every_post=True),
    )
}

OWN_PATHS: Final = frozenset({"/v2/health/live", "/v2/health/ready"})


def _pattern(path: str) -> re.Pattern[str]:
    spelt = re.escape(path).replace(r"\{model\}", "(?P<model>[^/]+?)").replace(r"\{version\}", "[^/]+")
    return re.compile(spelt)


class Routes:
    """The routes of one profile for one model, prepared for one dictionary look-up per request."""

    __slots__ = ("_by_model", "_every_post", "_exact", "model")

    def __init__(self, profile: str, model: str) -> None:
        """ValueError when there is no such profile."""
        if profile not in PROFILES:
            raise ValueError(f"profile: '{profile}' is not allowed; one of {', '.join(PROFILES)}")
        data = PROFILES[profile]
        self.model = model
        self._every_post = data.every_post
        self._exact = {(r.method, r.path): r.model_in for r in data.judged if r.model_in is not ModelIn.PATH}
        self._by_model = [(r.method, _pattern(r.path)) for r in data.judged if r.model_in is ModelIn.PATH]

    def kind(self, method: str, path: str, body: bytes) -> Kind:
        """The class of a request. ``path`` is as sent, without the query; of ``body`` the first 4 KiB are looked at.

        A model that cannot be found is none of ours: pinned.
        """
        if path in OWN_PATHS:
            return Kind.OWN
        model_in = self._exact.get((method, path))
        if model_in is ModelIn.BODY:
            return Kind.JUDGED if scan_model(body) == self.model else Kind.PINNED
        if model_in is ModelIn.NOWHERE:
            return Kind.JUDGED
        for wanted, pattern in self._by_model:
            if method == wanted and (found := pattern.fullmatch(path)):
                return Kind.JUDGED if unquote(found["model"]) == self.model else Kind.PINNED
        return Kind.JUDGED if self._every_post and method == "POST" else Kind.PINNED


# A whole string and whether it is a key; a bracket; or a quote that opens a string which does not end. Possessive
# quantifiers keep the scan linear whatever the input.
_TOKEN = re.compile(rb'(?P<string>"(?:[^"\\]++|\\.)*+")(?P<key>\s*+:)?+|(?P<bracket>[{}\[\]])|(?P<open>")', re.DOTALL)
_STRING = re.compile(rb'\s*+"((?:[^"\\]++|\\.)*+)"', re.DOTALL)


_STREAM_KEY: Final = b'"stream"'
_TRUE = re.compile(rb"\s{0,64}+:\s{0,64}+true\b")
_LOOKS = 8


def asks_for_events(body: bytes) -> bool:
    """Whether a JSON body says ``"stream": true``: the OpenAI way to ask for server-sent events.

    No parser: text that quotes those words does not match, because JSON writes a quote inside of a string as ``\\"``. A
    request that asks in another way is known by its answer.
    """
    at = -1
    for _ in range(_LOOKS):
        at = body.find(_STREAM_KEY, at + 1)
        if at < 0:
            return False
        if _TRUE.match(body, at + len(_STREAM_KEY)):
            return True
    return False


def scan_model(body: bytes) -> str | None:
    """The top-level ``model`` string of a JSON object, sought in its first 4 KiB; None when it is not found there.

    A tolerant scanner, no parser: a ``model`` inside a nested object or a string is passed over, and whatever is no
    JSON object has no model. A name that needs JSON escapes is not recognised.
    """
    window = body[:SCAN_BYTES]
    if window.lstrip()[:1] != b"{":
        return None
    depth = 0
    for token in _TOKEN.finditer(window):
        match token.lastgroup:
            case "bracket":
                depth += 1 if token["bracket"] in b"{[" else -1
            case "key":
                if depth == 1 and token["string"] == b'"model"':
                    found = _STRING.match(window, token.end())
                    return None if found is None or b"\\" in found[1] else found[1].decode("utf-8", "replace")
            case "open":
                return None
            case _:
                continue
        if depth <= 0:
            return None
    return None
