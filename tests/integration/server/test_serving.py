"""A ready server on the CPU, asked over HTTP."""

import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from integration.server.running import MODEL, RunningServer

TEXTS = ["Hello world", "A cat sat on the mat.", "naïve café ☕ 東京", "a", "the quick brown fox jumps over it"]
INFER = f"/v2/models/{MODEL}/infer"
MANY_TEXTS = (
    b'{"inputs":[{"name":"text","shape":[300000],"datatype":"BYTES","data":[' + b",".join([b'""'] * 300_000) + b"]}]}"
)


def cosine(left: Any, right: Any) -> float:
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def vectors(response: Any) -> list[list[float]]:
    assert response.status_code == 200, response.text
    return [item["embedding"] for item in response.json()["data"]]


def test_embeddings_equal_plain_transformers(
    cpu_server: RunningServer, reference: Callable[[list[str]], list[list[float]]]
) -> None:
    """Every vector, smallest cosine at least 0.9999, length one."""
    expected = reference(TEXTS)
    for text, want in zip(TEXTS, expected, strict=True):
        (got,) = vectors(cpu_server.embed(text))
        assert cosine(got, want) >= 0.9999
        assert np.linalg.norm(got) == pytest.approx(1.0, abs=1e-5)


def test_padding_does_not_change_answers(cpu_server: RunningServer) -> None:
    """A short text beside a long one, in another bucket, gives the same vector as alone."""
    (alone,) = vectors(cpu_server.embed("Hello world"))
    short, _ = vectors(cpu_server.embed(["Hello world", "the quick brown fox jumps over the lazy dog"]))
    assert cpu_server.embed("Hello world").headers["x-canary-bucket"] == "1x8"
    assert cosine(alone, short) >= 0.999999
    assert np.abs(np.asarray(alone) - np.asarray(short)).max() < 1e-5


def test_both_protocols_and_all_input_forms_agree(cpu_server: RunningServer) -> None:
    """Text, token ids, padded ids with a mask, numbers and base64: one vector."""
    (text,) = vectors(cpu_server.embed("Hello world"))
    ids = [101, 7592, 2088, 102]
    forms = [vectors(cpu_server.embed(ids))[0], vectors(cpu_server.embed([ids]))[0]]
    encoded = cpu_server.embed("Hello world", encoding_format="base64").json()["data"][0]["embedding"]
    forms.append(np.frombuffer(base64.b64decode(encoded), dtype="<f4").tolist())
    for inputs in (
        [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["Hello world"]}],
        [{"name": "input_ids", "shape": [1, 4], "datatype": "INT64", "data": ids}],
        [
            {"name": "input_ids", "shape": [1, 6], "datatype": "INT64", "data": [[*ids, 0, 0]]},
            {"name": "attention_mask", "shape": [1, 6], "datatype": "INT64", "data": [[1, 1, 1, 1, 0, 0]]},
        ],
    ):
        answer = cpu_server.data.post(INFER, json={"id": "7", "inputs": inputs})
        assert answer.status_code == 200, answer.text
        assert answer.json()["id"] == "7"
        assert answer.json()["outputs"][0]["shape"] == [1, 384]
        forms.append(answer.json()["outputs"][0]["data"])
    for form in forms:
        assert np.abs(np.asarray(form) - np.asarray(text)).max() < 1e-6


def test_an_answer_says_how_it_came_about(cpu_server: RunningServer) -> None:
    """Bucket, rows, times, compiles, identity, and the request's own id."""
    answer = cpu_server.data.post(
        "/v1/embeddings", json={"model": MODEL, "input": ["a", "b"]}, headers={"x-request-id": "r-1"}
    )
    assert answer.headers["x-request-id"] == "r-1"
    assert answer.headers["x-canary-bucket"] == "2x8"
    assert answer.headers["x-canary-rows"] == "2"
    assert answer.headers["x-canary-compiles"] == "0"
    device, batch = float(answer.headers["x-canary-device-ms"]), float(answer.headers["x-canary-batch-ms"])
    assert 0 < device <= batch
    assert float(answer.headers["x-canary-queue-ms"]) >= 0
    metadata = cpu_server.data.get(f"/v2/models/{MODEL}").json()
    assert answer.headers["x-canary-identity"] == metadata["parameters"]["identity_digest"]
    assert answer.json()["usage"] == {"prompt_tokens": 6, "total_tokens": 6}


def test_a_request_of_more_rows_than_a_batch_is_one_answer(cpu_server: RunningServer) -> None:
    """Short and long texts, eleven rows for batches of two: each at its own place, equal to itself asked alone."""
    texts = [("word " * (number % 9) + f"{number}") for number in range(11)]
    alone = [vectors(cpu_server.embed(text))[0] for text in texts]
    answer = cpu_server.embed(texts)
    assert answer.headers["x-canary-rows"] == "11"
    for one, other in zip(alone, vectors(answer), strict=True):
        assert cosine(one, other) >= 0.999999


def test_more_rows_than_may_wait_are_refused(cpu_server: RunningServer) -> None:
    """With the limit, whatever the batches are."""
    answer = cpu_server.embed(["a"] * 257)
    assert answer.status_code == 400
    assert "got 257 rows, this server takes at most 256 rows" in answer.json()["error"]["message"]


def test_a_deadline_that_passes_says_where(cpu_server: RunningServer) -> None:
    """By the header, and by the protocol's own parameter, in microseconds; the earlier one holds."""
    ids = {"name": "input_ids", "shape": [64, 16], "datatype": "INT64", "data": [5] * 1024}
    by_header = cpu_server.data.post(INFER, json={"inputs": [ids]}, headers={"x-canary-deadline-ms": "1"})
    by_protocol = cpu_server.data.post(
        INFER, json={"inputs": [ids], "parameters": {"timeout": 1}}, headers={"x-canary-deadline-ms": "60000"}
    )
    for answer in (by_header, by_protocol):
        assert answer.status_code == 504, answer.text
        assert answer.json()["reason"] == "deadline"
        assert answer.headers["x-canary-phase"] in ("admission", "queue", "device")
    malformed = cpu_server.data.post(INFER, json={"inputs": [ids], "parameters": {"timeout": "soon"}})
    assert malformed.status_code == 400
    assert "parameters.timeout: got 'soon'" in malformed.json()["error"]


def test_many_callers_at_once_get_their_own_answers(cpu_server: RunningServer) -> None:
    """Batched together or not, nobody gets another's vector."""
    texts = [f"sentence number {number}" for number in range(24)]
    alone = [vectors(cpu_server.embed(text))[0] for text in texts]
    with ThreadPoolExecutor(max_workers=8) as pool:
        together = list(pool.map(lambda text: vectors(cpu_server.embed(text))[0], texts))
    for one, other in zip(alone, together, strict=True):
        assert cosine(one, other) >= 0.999999


@pytest.mark.parametrize(("given", "part"), [("word " * 15, "17 tokens"), ([[5] * 17], "17 tokens")])
def test_a_shape_outside_the_catalogue_is_refused_with_the_limits(
    cpu_server: RunningServer, given: Any, part: str
) -> None:
    """400 in the protocol's shape, nothing cut, nothing compiled."""
    answer = cpu_server.embed(given)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "shape_not_served"
    for each in (part, "at most 2 rows of at most 16 tokens"):
        assert each in error["message"]
    assert cpu_server.metric('canary_server_compiles_total{phase="serving"}') == 0


def test_the_longest_allowed_text_is_served(cpu_server: RunningServer) -> None:
    """Sixteen tokens with [CLS] and [SEP]."""
    answer = cpu_server.embed("word " * 14)
    assert answer.status_code == 200
    assert answer.json()["usage"]["prompt_tokens"] == 16


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "reason"),
    [
        ("/v1/embeddings", b'{"model":"other","input":"a"}', {}, 404, "model_not_found"),
        ("/v1/embeddings", b"{", {}, 400, "bad_request"),
        ("/v1/embeddings", b'{"model":"all-MiniLM-L6-v2","input":[99999]}', {}, 400, "bad_request"),
        ("/v1/embeddings", b'{"model":"all-MiniLM-L6-v2","input":"a","dimensions":999}', {}, 400, "bad_request"),
        ("/v1/embeddings", b"x" * 1_100_000, {}, 413, "body_too_large"),
        ("/v1/embeddings", b"a=b", {"content-type": "text/plain"}, 415, "unsupported_media_type"),
        ("/v1/embeddings", b"{}", {"content-encoding": "br"}, 415, "unsupported_media_type"),
        ("/v1/embeddings", b"{}", {"content-encoding": "gzip"}, 400, "bad_request"),
        ("/v1/embeddings", b"{}", {"inference-header-content-length": "2"}, 415, "unsupported_media_type"),
        ("/v1/other", b"{}", {}, 404, "route_not_found"),
        ("/v1/embeddings", b'{"model":"all-MiniLM-L6-v2","input":' + b"[" * 500_000, {}, 400, "bad_request"),
        (INFER, b'{"inputs":' + b"[" * 500_000, {}, 400, "bad_request"),
        (INFER, MANY_TEXTS, {}, 400, "shape_not_served"),
        (INFER, b"{}", {}, 400, "bad_request"),
        (INFER, b"{}", {"inference-header-content-length": "3"}, 400, "bad_request"),
        (INFER, b"{}", {"inference-header-content-length": "0"}, 400, "bad_request"),
        (INFER, b"{}", {"content-type": "application/octet-stream"}, 400, "bad_request"),
        (f"/v2/models/{MODEL}/versions/1/infer", b"{}", {}, 404, "model_not_found"),
        ("/v1/embeddings", b'{"model":"all-MiniLM-L6-v2","input":"a","dimensions":8}', {}, 400, "bad_request"),
        ("/v2/models/other/infer", b"{}", {}, 404, "model_not_found"),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(
    cpu_server: RunningServer, path: str, body: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    """Status, and the reason in the shape of the protocol of its path."""
    answer = cpu_server.data.post(path, content=body, headers={"content-type": "application/json", **headers})
    assert answer.status_code == status
    content = answer.json()
    assert (content["error"]["code"] if path.startswith("/v1/") else content["reason"]) == reason


def test_an_endless_body_is_cut_off_at_the_limit(cpu_server: RunningServer) -> None:
    """Without a length in the head, the bytes are counted."""
    answer = cpu_server.data.post(
        "/v1/embeddings",
        content=(b"x" * 65536 for _ in range(64)),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 413


def test_a_wrong_method_is_405(cpu_server: RunningServer) -> None:
    """With the reason."""
    answer = cpu_server.data.get("/v1/embeddings")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_a_deadline_that_cannot_be_kept_is_504(cpu_server: RunningServer) -> None:
    """One millisecond is shorter than any batch of a queue of others."""
    with ThreadPoolExecutor(max_workers=9) as pool:
        others = [pool.submit(cpu_server.embed, ["fill the queue", "with work"]) for _ in range(8)]
        late = cpu_server.data.post(
            "/v1/embeddings", json={"model": MODEL, "input": "a"}, headers={"x-canary-deadline-ms": "1"}
        )
        assert late.status_code == 504
        assert late.json()["error"]["code"] == "deadline"
        assert all(other.result().status_code == 200 for other in others)


def test_metadata_and_health_of_a_ready_server(cpu_server: RunningServer) -> None:
    """Who it is, what it takes, and that it is ready."""
    assert cpu_server.data.get("/v2").json()["name"] == "tpu-canary"
    metadata = cpu_server.data.get(f"/v2/models/{MODEL}").json()
    assert [each["name"] for each in metadata["inputs"]] == ["text", "input_ids", "attention_mask"]
    assert metadata["outputs"] == [{"name": "embedding", "datatype": "FP32", "shape": [-1, 384]}]
    assert metadata["parameters"]["emulated"] is False
    assert metadata["parameters"]["compiled"] is False
    assert cpu_server.data.get("/v2/models/other").status_code == 404
    for path, body in (
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        (f"/v2/models/{MODEL}/ready", {"name": MODEL, "ready": True}),
    ):
        answer = cpu_server.data.get(path)
        assert (answer.status_code, answer.json()) == (200, body)
    for path in ("/startupz", "/readyz", "/livez"):
        assert cpu_server.admin.get(path).status_code == 200
    health = cpu_server.health()
    assert health["bucket"] == health["buckets"] == len(health["warm_up"]) == 4
    assert {each["source"] for each in health["warm_up"]} == {"eager"}
    assert cpu_server.admin.get("/nothing").status_code == 404


def test_health_of_the_admin_port_is_not_on_the_data_port(cpu_server: RunningServer) -> None:
    """What faces clients does not tell how it is doing inside."""
    for path in ("/startupz", "/readyz", "/livez", "/metrics"):
        assert cpu_server.data.get(path).status_code == 404


def test_the_admin_port_answers_for_this_machine_only(cpu_server: RunningServer) -> None:
    """A page whose name points at loopback is turned away, from metrics as from probes."""
    for path in ("/metrics", "/livez"):
        answer = cpu_server.admin.get(path, headers={"host": "evil.example"})
        assert (answer.status_code, answer.json()["reason"]) == (421, "host_not_allowed")


def test_headers_are_bounded_on_both_ports(cpu_server: RunningServer) -> None:
    """431, and nothing of them is kept."""
    for port in (cpu_server.data, cpu_server.admin):
        answer = port.get("/v2/health/live", headers={"x-filler": "x" * 100_000})
        assert answer.status_code == 431


def test_the_access_log_names_every_inference_request(cpu_server: RunningServer) -> None:
    """With epoch and copy mark from the gateway, and no content."""
    cpu_server.data.post(
        "/v1/embeddings",
        json={"model": MODEL, "input": "a secret sentence"},
        headers={"x-request-id": "logged-1", "x-canary-epoch": "17", "x-canary-shadow": "1"},
    )
    cpu_server.data.post("/v1/embeddings", content=b"{", headers={"x-request-id": "logged-2"})
    text = cpu_server.access_log.read_text()
    lines = {line["request_id"]: line for line in map(json.loads, text.splitlines())}
    first, second = lines["logged-1"], lines["logged-2"]
    assert (first["epoch"], first["shadow"], first["status"], first["bucket"]) == ("17", True, 200, "1x8")
    assert (second["shadow"], second["status"], second["reason"]) == (False, 400, "bad_request")
    assert "secret" not in text
