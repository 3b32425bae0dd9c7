"""Requests that are meant to hurt: each is refused, nothing crashes or hangs, and the front's memory stays bounded."""

import gzip
import json
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integration.server.running import MODEL, RunningServer, running, tiny_model

INFER = f"/v2/models/{MODEL}/infer"
EMBED = "/v1/embeddings"
FRAME = "inference-header-content-length"
MIB = 1 << 20
GOLDEN: Any = json.loads((Path(__file__).parents[2] / "data" / "oip_golden.json").read_text())["request"]
HEAD, TAIL = GOLDEN["json"].encode(), bytes.fromhex(GOLDEN["hex"])

Case = tuple[str, bytes, dict[str, str]]


def tensor(**fields: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", **fields}]}).encode()


def behind(raw: bytes, *, size: int | None = None, **fields: Any) -> Case:
    """A tensor of ``raw`` behind the JSON, which says ``size`` of it."""
    head = tensor(parameters={"binary_data_size": len(raw) if size is None else size}, **fields)
    return INFER, head + raw, {FRAME: str(len(head)), "content-type": "application/octet-stream"}


def cases() -> Iterator[Case]:
    """Each gets a 4xx."""
    zeros = bytes(256 * MIB)
    broad = b"[" + b",".join([b"{}"] * 170_000) + b"]"
    for path in (EMBED, INFER):
        # A thousand times its size.
        yield path, gzip.compress(zeros, 1), {"content-encoding": "gzip"}
        yield path, zlib.compress(zeros, 1), {"content-encoding": "deflate"}
        yield path, gzip.compress(gzip.compress(zeros, 9), 9), {"content-encoding": "gzip"}
        yield path, gzip.compress(b"{}") * 40_000, {"content-encoding": "gzip"}
        yield path, gzip.compress(b"x" * MIB)[:-9], {"content-encoding": "gzip"}
        # Nested, and broad.
        yield path, b"[" * MIB, {}
        yield path, b'{"inputs":' * 100_000, {}
        yield path, b'{"model":"m","input":' + b"[" * 300_000 + b"]" * 300_000 + b"}", {}
        yield path, b'{"model":"m","input":' + broad + b"," + tensor(data=[]).replace(b"[]", broad)[1:], {}
        yield path, b"{" + b",".join(b'"%d":0' % n for n in range(90_000)) + b"}", {}
        # Numbers that no float and no int64 holds; text that is none.
        yield path, b'{"model":"m","input":[' + b"9" * 500_000 + b"]}", {}
        yield path, b'{"model":"m","input":[1e999999],"inputs":1e999999}', {}
        yield path, b'{"model":"\xff\xfe","input":"\xc0","inputs":"\xed\xa0\x80"}', {}
        yield path, b"\x00" * MIB, {}
    # A million inputs: too long as they are, and decoded.
    million = b'{"inputs":[' + b",".join([b"{}"] * 1_000_000) + b"]}"
    yield INFER, million, {}
    yield INFER, gzip.compress(million, 1), {"content-encoding": "gzip"}
    small = b'{"name":"","shape":[],"datatype":"","data":[]}'
    yield INFER, b'{"inputs":[' + b",".join([small] * 22_000) + b"]}", {}
    # Shapes that lie.
    for shape in ([1 << 62], [1 << 40, 1 << 40], [0, 1 << 62], [-1], [1] * 10_000, [10**30]):
        yield INFER, tensor(shape=shape, data=["a"]), {}
        yield behind(b"\x01\x00\x00\x00a", shape=shape)
    # Lengths that lie.
    for size in (1 << 40, -1, 3):
        yield behind(b"\x01\x00\x00\x00a", size=size)
    for length in ("99999999999", "-1", "1" * 5000, "0", "1e3", ""):
        yield INFER, HEAD + TAIL, {FRAME: length}
    yield behind(b"\xff\xff\xff\xff" * 200_000, shape=[1])
    yield behind(bytes(4 * 250_000), shape=[250_000])
    yield behind(bytes(1_000_000), datatype="INT8", name="input_ids", shape=[1000, 1000])
    # Heads.
    yield EMBED, b"{}", {"x-request-id": "r" * 60_000, "content-encoding": "gzip"}
    yield EMBED, b"{}", {"content-type": "application/json" + ";a" * 20_000}


def memory(server: RunningServer) -> tuple[int, int]:
    """Bytes of the front process: now, and at most so far."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return int(found["VmRSS"].split()[0]) * 1024, int(found["VmHWM"].split()[0]) * 1024


@pytest.fixture(scope="module")
def hostile() -> list[Case]:
    return list(cases())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    where = tmp_path_factory.mktemp("hostile")
    with running(where, model=tiny_model(where)) as server:
        assert server.wait_state("ready", "failed")["state"] == "ready"
        yield server


def send(server: RunningServer, case: Case) -> None:
    path, body, headers = case
    answer = server.data.post(path, content=body, headers={"content-type": "application/json", **headers})
    assert 400 <= answer.status_code < 500, (path, body[:60], headers, answer.text[:200])
    content = answer.json()
    assert (content["error"]["message"] if path == EMBED else content["error"]) != ""
    assert len(answer.content) < 4096


def test_each_is_refused_and_memory_stays_where_it_was(server: RunningServer, hostile: list[Case]) -> None:
    """The first round fills the allocator's pools; the later ones must find their room there."""
    for case in hostile:
        send(server, case)
    before, _ = memory(server)
    for _ in range(5):
        for case in hostile:
            send(server, case)
    now, most = memory(server)
    assert server.embed("still here").status_code == 200
    assert now - before < 32 * MIB, (before, now)
    # A megabyte of JSON is tens of megabytes of objects, and there is one request at a time.
    assert most - before < 128 * MIB, (before, most)
    assert not [event for event in server.events() if event["event"] == "request_failed"]


RAW: list[bytes] = [
    b"",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    b"GET\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 18446744073709551616\r\n\r\n{}",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n{}",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"e" * 200_000 + b"\r\n{\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n{",
    b"GET /v2/health/live HTTP/1.1\r\n" + b"a: b\r\n" * 30_000 + b"\r\n",
    b"GET /" + b"%2e%2e/" * 8_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v2/models/\xff\xfe%ff%00 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n" * 500,
]


def talk(server: RunningServer, sent: bytes) -> bytes:
    """What comes back until the server closes; a time-out of the socket is a hang, and fails."""
    with socket.create_connection((server.data.base_url.host, server.data.base_url.port), timeout=60) as raw:
        found = b""
        try:
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
            while part := raw.recv(65536):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass
        return found


def no_error_of_ours(answer: bytes) -> bool:
    return not answer or (answer.startswith(b"HTTP/1.1 ") and b"HTTP/1.1 5" not in answer)


@pytest.mark.parametrize("number", range(len(RAW)))
def test_bytes_that_are_no_request_end_their_connection(server: RunningServer, number: int) -> None:
    """With a 4xx or without a word, and nobody else notices."""
    assert no_error_of_ours(talk(server, RAW[number]))
    assert server.embed("still here").status_code == 200


@st.composite
def mutated(draw: Any) -> bytes:
    """The golden body, some of it changed, cut out, doubled or put in."""
    body = bytearray(HEAD + TAIL)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        end = min(len(body), at + draw(st.integers(0, 24)))
        body[at:end] = draw(st.binary(max_size=16) | st.just(bytes(body[at:end]) * 2))
    return bytes(body)


unhurried: Callable[..., Any] = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@unhurried
@given(body=mutated(), length=st.integers(-1, 400) | st.just(len(HEAD)))
def test_a_changed_binary_request_is_answered_or_refused(server: RunningServer, body: bytes, length: int) -> None:
    """No 5xx, no silence, whatever is cut where."""
    answer = server.data.post(
        INFER, content=body, headers={"content-type": "application/octet-stream", FRAME: str(length)}
    )
    assert answer.status_code == 200 or 400 <= answer.status_code < 500, answer.text


@unhurried
@given(at=st.integers(0, 400), put=st.binary(max_size=12))
def test_a_changed_head_ends_its_connection_at_most(server: RunningServer, at: int, put: bytes) -> None:
    """The same for the bytes before the body."""
    head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\n" % INFER.encode()
    head += b"%b: %d\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (FRAME.encode(), len(HEAD), len(HEAD + TAIL))
    at = min(at, len(head))
    assert no_error_of_ours(talk(server, head[:at] + put + head[at + len(put) :] + HEAD + TAIL))
