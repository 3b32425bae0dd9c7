"""curl against a ready server, on the CPU and on the emulated device: bytes as they are on the wire."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integration.server.running import MODEL, RunningServer

GOLDEN: Any = json.loads((Path(__file__).parents[2] / "data" / "oip_golden.json").read_text())["request"]
INFER = f"/v2/models/{MODEL}/infer"
QUESTION = json.dumps({"model": MODEL, "input": "Hello world"})
JSON = ("-H", "content-type: application/json")


@dataclass(frozen=True)
class Answer:
    """``heads``: status and headers of every answer that came, 100 among them."""

    heads: list[tuple[int, dict[str, str]]]
    body: bytes

    @property
    def status(self) -> int:
        return self.heads[-1][0]

    @property
    def headers(self) -> dict[str, str]:
        return self.heads[-1][1]


Curl = Callable[..., Answer]


@pytest.fixture
def curl(any_server: RunningServer, tmp_path: Path) -> Curl:
    """``curl(path, *options)``; what goes to standard input is ``given``."""
    program = shutil.which("curl")
    if program is None:
        reason = "curl is missing: apt-get install -y --no-install-recommends curl"
        pytest.fail(reason) if os.environ.get("CANARY_TOOLS_REQUIRED") else pytest.skip(reason)

    def ask(path: str, *options: str, given: bytes = b"", port: str = "data") -> Answer:
        url = str(getattr(any_server, port).base_url.join(path))
        heads, body = tmp_path / "heads", tmp_path / "body"
        body.write_bytes(b"")
        done = subprocess.run(
            [program, "-sS", "-m", "60", "--noproxy", "*", "-D", str(heads), "-o", str(body), *options, url],
            input=given,
            capture_output=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        return Answer(
            [_head(part) for part in heads.read_bytes().decode().split("\r\n\r\n") if part], body.read_bytes()
        )

    return ask


def _head(text: str) -> tuple[int, dict[str, str]]:
    first, *lines = text.split("\r\n")
    pairs = (line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in pairs}


def embedding(answer: Answer) -> Any:
    assert answer.status == 200, answer.body
    return np.array(json.loads(answer.body)["data"][0]["embedding"], dtype=np.float32)


def test_golden_bytes_in_and_bytes_out(curl: Curl, any_server: RunningServer) -> None:
    """A binary request that was written by hand; the answer is cut by its headers and its JSON alone."""
    head, tail = GOLDEN["json"].encode(), bytes.fromhex(GOLDEN["hex"])
    answer = curl(
        INFER, "-H", "content-type: application/octet-stream", "-H", f"inference-header-content-length: {len(head)}",
        "--data-binary", "@-", given=head + tail,
    )  # fmt: skip
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/octet-stream"
    assert int(answer.headers["content-length"]) == len(answer.body)
    cut = int(answer.headers["inference-header-content-length"])
    told = json.loads(answer.body[:cut])
    assert told["id"] == "7"
    assert told["outputs"] == [
        {"name": "embedding", "shape": [1, 384], "datatype": "FP32", "parameters": {"binary_data_size": 1536}}
    ]
    assert len(answer.body) == cut + 1536
    ids, mask = GOLDEN["ids"], GOLDEN["mask"]
    kept = [token for token, keep in zip(ids[0], mask[0], strict=True) if keep]
    wanted = any_server.embed([kept]).json()["data"][0]["embedding"]
    assert np.abs(np.frombuffer(answer.body[cut:], dtype="<f4") - np.array(wanted)).max() < 1e-5


def test_a_body_waits_for_100_continue(curl: Curl) -> None:
    """Said before the body is read; where the head alone is refused, the body need not come."""
    expect = ("-H", "expect: 100-continue", "--expect100-timeout", "60")
    answer = curl("/v1/embeddings", *JSON, *expect, "-d", QUESTION)
    assert [status for status, _ in answer.heads] == [100, 200]
    embedding(answer)
    large = curl("/v1/embeddings", *JSON, *expect, "--data-binary", "@-", given=b"x" * 2_000_000)
    assert [status for status, _ in large.heads] == [413]
    assert large.headers["connection"] == "close"


def test_a_body_may_come_in_chunks(curl: Curl) -> None:
    """Without a length; the limit holds all the same."""
    chunked = ("-H", "transfer-encoding: chunked", "-H", "expect:", "--data-binary", "@-")
    whole = embedding(curl("/v1/embeddings", *JSON, "-d", QUESTION))
    assert np.array_equal(embedding(curl("/v1/embeddings", *JSON, *chunked, given=QUESTION.encode())), whole)
    answer = curl("/v1/embeddings", *JSON, *chunked, given=b"x" * 3_000_000)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (413, "body_too_large")


def test_compressed_answers_are_read(curl: Curl) -> None:
    """With ``--compressed``, which names what this curl can read."""
    plain = curl("/v1/embeddings", *JSON, "-d", json.dumps({"model": MODEL, "input": ["a", "b"]}))
    coded = curl("/v1/embeddings", *JSON, "--compressed", "-d", json.dumps({"model": MODEL, "input": ["a", "b"]}))
    assert coded.headers["content-encoding"] in ("gzip", "deflate")
    assert int(coded.headers["content-length"]) < len(plain.body)
    assert coded.body == plain.body


@pytest.mark.parametrize(
    ("options", "given", "status", "part"),
    [
        ((), b"{", 400, "truncated"),
        ((), b'{"inputs":[]}', 400, "inputs: got []"),
        ((), b'{"inputs":[{"name":"text","shape":[2],"datatype":"BYTES","data":["a"]}]}', 400, "for shape [2]"),
        ((), b'{"inputs":[{"name":"input_ids","shape":[1,1],"datatype":"INT64","data":[99999]}]}', 400, "0 to 30521"),
        (("-H", "inference-header-content-length: 99"), b"{}", 400, "inference-header-content-length: got '99'"),
        (("-H", "inference-header-content-length: -1"), b"{}", 400, "inference-header-content-length: got '-1'"),
        (("-H", "content-encoding: gzip"), b"no gzip", 400, "content-encoding: the body is no gzip data"),
        (("-H", "content-encoding: br"), b"{}", 415, "content-encoding: got 'br'"),
        (("-H", "content-type: text/plain"), b"{}", 415, "content-type: got 'text/plain'"),
    ],
)
def test_a_mistake_is_named(curl: Curl, options: tuple[str, ...], given: bytes, status: int, part: str) -> None:
    """Status, and in the answer which field, what came and what is allowed."""
    own_type = () if any("content-type" in option for option in options) else JSON
    answer = curl(INFER, *own_type, *options, "--data-binary", "@-", given=given)
    assert answer.status == status
    assert part in json.loads(answer.body)["error"]


@pytest.mark.parametrize(
    ("port", "path"),
    [("data", "/v2/health/live"), ("data", "/v2/health/ready"), ("data", f"/v2/models/{MODEL}"), ("admin", "/readyz")],
)
def test_head_is_get_without_its_body(curl: Curl, port: str, path: str) -> None:
    """What balancers ask for health with."""
    asked, got = curl(path, "-I", port=port), curl(path, port=port)
    assert (asked.status, got.status) == (200, 200)
    assert asked.body.startswith(b"HTTP/1.1 200")  # With -I the head is what curl writes out.
    assert b"{" not in asked.body
    assert asked.headers["content-type"] == got.headers["content-type"] == "application/json"


def test_other_methods_are_told_which_there_are(curl: Curl) -> None:
    """405 with Allow, and OPTIONS; neither costs the connection."""
    answer = curl("/v1/embeddings")
    assert answer.status == 405
    assert {each.strip() for each in answer.headers["allow"].split(",")} == {"OPTIONS", "POST"}
    assert curl("/v1/embeddings", "-I").status == 405
    options = curl(INFER, "-X", "OPTIONS")
    assert (options.status, options.body) == (204, b"")
    assert "POST" in options.headers["allow"]
