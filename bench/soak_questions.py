"""The soak's requests, drawn by number, and what makes an answer right.

Written by hand from the protocols' documents, so that what is wrong with our own encoding shows. Every row of a
request is one of a pool of rows, whose vectors were asked for alone before: whoever gets another's vector, or rows in
another order, is found.
"""

import base64
import gzip
import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from bench.server_work import MODEL, WORDS

EMBED: Final = "/v1/embeddings"
INFER: Final = f"/v2/models/{MODEL}/infer"
Form = Literal["text", "ids"]
SHARES: Final = {"shadow": 0.10, "deadline": 0.05, "hopeless": 0.03, "gone": 0.03, "large": 0.03, "gzip": 0.10}
"""Of all requests; large ones are of several batches."""
TOLERANCE: Final = {"FP32": 1e-4, "FP16": 5e-4, "BF16": 2e-3}
_SPECIAL: Final = 2  # [CLS] and [SEP], of every text; every word is one token.
_CLS, _SEP, _FIRST, _LAST = 101, 102, 2000, 20_000

Vectors = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class Wrong(Exception):
    """An answer that is not the right one."""


@dataclass(frozen=True, slots=True)
class Row:
    """``text`` or ``ids``; ``length`` is in tokens."""

    length: int
    text: str = ""
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One request. ``rows`` are places in the pool, in order; ``datatype`` None: OpenAI's, in base64 where ``raw``."""

    number: int
    path: str
    body: bytes
    headers: dict[str, str]
    rows: tuple[int, ...]
    datatype: str | None
    raw: bool
    kinds: frozenset[str] = field(default_factory=frozenset)


class Pool:
    """Rows of every length up to the longest declared one, and the questions that are made of them."""

    def __init__(self, batches: Sequence[int], lengths: Sequence[int], *, seed: int = 1, each: int = 2) -> None:
        draw = random.Random(seed)
        self.batches, self.lengths = tuple(batches), tuple(lengths)
        self.rows: list[Row] = []
        self._by: dict[tuple[Form, int], list[int]] = {}
        for length in range(_SPECIAL + 1, lengths[-1] + 1):
            for _ in range(each):
                words = draw.choices(WORDS, k=length - _SPECIAL)
                self._add("text", Row(length, text=" ".join(words)))
                ids = (_CLS, *(draw.randrange(_FIRST, _LAST) for _ in words), _SEP)
                self._add("ids", Row(length, ids=ids))
        self._seed = seed

    def _add(self, form: Form, row: Row) -> None:
        lane = next(length for length in self.lengths if length >= row.length)
        self._by.setdefault((form, lane), []).append(len(self.rows))
        self.rows.append(row)

    def alone(self, place: int) -> Question:
        """The row by itself: its answer is what later ones are compared with."""
        row = self.rows[place]
        return self._openai(place, (place,), "ids" if row.ids else "text", False, {}, frozenset())

    def question(self, number: int) -> Question:
        """The same for the same number. The first ones meet every declared shape, each exactly filled."""
        draw = random.Random(f"{self._seed}/{number}")
        shapes = [(batch, length) for batch in self.batches for length in self.lengths]
        form: Form = draw.choice(("text", "ids"))
        count, lane = shapes[number] if number < len(shapes) else draw.choice(shapes)
        kinds = set() if number < len(shapes) else {name for name, share in SHARES.items() if draw.random() < share}
        if number >= len(shapes):
            count = draw.randint(1, count)
        if "large" in kinds:
            count = draw.randint(self.batches[-1] + 1, 3 * self.batches[-1])
        fitting = [place for length in self.lengths if length <= lane for place in self._by[(form, length)]]
        rows = [draw.choice(fitting) for _ in range(count)]
        rows[draw.randrange(count)] = draw.choice(self._by[(form, lane)])
        headers = {"x-request-id": f"soak-{number}"}
        if "shadow" in kinds:
            headers |= {"x-canary-shadow": "1", "x-canary-epoch": "1"}
        if kinds & {"deadline", "hopeless"}:
            headers["x-canary-deadline-ms"] = "1" if "hopeless" in kinds else "600000"
        ask: Callable[..., Question] = draw.choice((self._openai, self._infer))
        return ask(number, tuple(rows), form, draw.random() < 0.5, headers, frozenset(kinds))

    def _openai(
        self, number: int, rows: tuple[int, ...], form: Form, raw: bool, headers: dict[str, str], kinds: frozenset[str]
    ) -> Question:
        given: list[Any] = [row.text if form == "text" else list(row.ids) for row in map(self.rows.__getitem__, rows)]
        document = {"model": MODEL, "input": given, "encoding_format": "base64" if raw else "float"}
        body, more = _coded(json.dumps(document).encode(), kinds)
        headers = {**headers, **more, "content-type": "application/json"}
        return Question(number, EMBED, body, headers, rows, None, raw, kinds)

    def _infer(
        self, number: int, rows: tuple[int, ...], form: Form, raw: bool, headers: dict[str, str], kinds: frozenset[str]
    ) -> Question:
        datatype = ("FP32", "FP16", "BF16")[number % 3] if raw else "FP32"
        behind = number % 2 == 0
        tensors = self._texts(rows) if form == "text" else self._ids(rows)
        inputs: list[dict[str, Any]] = []
        tail = b""
        for name, kind, shape, values, content in tensors:
            given: dict[str, Any] = {"name": name, "datatype": kind, "shape": shape}
            if behind:
                given["parameters"] = {"binary_data_size": len(content)}
                tail += content
            else:
                given["data"] = values
            inputs.append(given)
        document = {
            "id": str(number),
            "inputs": inputs,
            "parameters": {"binary_data_output": raw, "output_datatype": datatype},
        }
        head = json.dumps(document).encode()
        body, more = _coded(head + tail, kinds)
        headers = {**headers, **more, "content-type": "application/octet-stream" if behind else "application/json"}
        if behind:
            headers["inference-header-content-length"] = str(len(head))
        return Question(number, INFER, body, headers, rows, datatype, raw, kinds)

    def _texts(self, rows: tuple[int, ...]) -> list[tuple[str, str, list[int], list[Any], bytes]]:
        texts = [self.rows[place].text for place in rows]
        coded = [text.encode() for text in texts]
        content = b"".join(struct.pack("<I", len(text)) + text for text in coded)
        return [("text", "BYTES", [len(texts)], list(texts), content)]

    def _ids(self, rows: tuple[int, ...]) -> list[tuple[str, str, list[int], list[Any], bytes]]:
        """Padded to the longest with a mask."""
        ids = [self.rows[place].ids for place in rows]
        width = max(map(len, ids))
        flat = [token for row in ids for token in (*row, *[0] * (width - len(row)))]
        mask = [bit for row in ids for bit in (*[1] * len(row), *[0] * (width - len(row)))]
        shape = [len(ids), width]
        return [
            ("input_ids", "INT64", shape, flat, np.array(flat, "<i8").tobytes()),
            ("attention_mask", "INT32", shape, mask, np.array(mask, "<i4").tobytes()),
        ]


def vectors(question: Question, headers: dict[str, str], body: bytes) -> Vectors:
    """Of a 200. Raises Wrong, KeyError, ValueError."""
    if question.datatype is None:
        data = json.loads(body)["data"]
        if [item["index"] for item in data] != list(range(len(question.rows))):
            raise Wrong("the indices are not those of the rows")
        if question.raw:
            return np.stack([np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in data])
        return np.array([item["embedding"] for item in data], np.float32)
    cut = int(headers.get("inference-header-content-length", len(body)))
    document = json.loads(body[:cut])
    (output,) = document["outputs"]
    if (document["id"], output["datatype"]) != (str(question.number), question.datatype):
        raise Wrong(f"id {document['id']!r} and datatype {output['datatype']!r} are another's")
    if not question.raw:
        return np.array(output["data"], np.float32).reshape(output["shape"])
    content = body[cut:]
    if question.datatype == "BF16":
        return (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(output["shape"])
    layout = {"FP32": "<f4", "FP16": "<f2"}[question.datatype]
    return np.frombuffer(content, layout).astype(np.float32).reshape(output["shape"])


def check(question: Question, headers: dict[str, str], body: bytes, known: Vectors) -> None:
    """Raises Wrong unless a 200 is the right answer; ``known``: the vectors of the pool."""
    if headers.get("x-request-id") != question.headers["x-request-id"]:
        raise Wrong("another request's id")
    if headers.get("x-canary-compiles") != "0":
        raise Wrong(f"x-canary-compiles is {headers.get('x-canary-compiles')}")
    if int(headers.get("x-canary-rows", 0)) != len(question.rows):
        raise Wrong(f"x-canary-rows is {headers.get('x-canary-rows')}, {len(question.rows)} were asked")
    got = vectors(question, headers, body)
    wanted = known[list(question.rows)]
    if got.shape != wanted.shape:
        raise Wrong(f"shape {got.shape}, wanted is {wanted.shape}")
    off = float(np.abs(got - wanted).max())
    if not off <= TOLERANCE[question.datatype or "FP32"]:
        raise Wrong(f"a number is off by {off:g}")


def _coded(body: bytes, kinds: frozenset[str]) -> tuple[bytes, dict[str, str]]:
    return (gzip.compress(body, 1, mtime=0), {"content-encoding": "gzip"}) if "gzip" in kinds else (body, {})
