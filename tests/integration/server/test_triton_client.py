"""Triton's own client against a ready server, on the CPU and on the emulated device."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as http
from integration.server.running import MODEL, RunningServer

IDS = np.array([[101, 7592, 2088, 102, 0, 0]], dtype=np.int64)
TEXTS = np.array([b"Hello world", "naïve café".encode()], dtype=np.object_)


@pytest.fixture
def client(any_server: RunningServer) -> Iterator[Any]:
    with http.InferenceServerClient(f"{any_server.data.base_url.host}:{any_server.data.base_url.port}") as client:
        yield client


@pytest.fixture
def expected(any_server: RunningServer) -> Any:
    """The vectors of TEXTS from the other protocol."""
    answer = any_server.embed([text.decode() for text in TEXTS]).json()
    return np.array([item["embedding"] for item in answer["data"]], dtype=np.float32)


def tensor(name: str, values: Any, datatype: str, *, binary: bool = True) -> Any:
    given = http.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values, binary_data=binary)
    return given


def test_it_finds_a_ready_server(client: Any, any_server: RunningServer) -> None:
    """Health, metadata, versions and statistics."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data", "statistics"]
    metadata = client.get_model_metadata(MODEL)
    (version,) = metadata["versions"]
    assert client.is_model_ready(MODEL)
    assert client.is_model_ready(MODEL, version)
    assert not client.is_model_ready(MODEL, "1")
    assert client.get_model_metadata(MODEL, version) == metadata
    assert any_server.data.get("/v2/models").json() == {"models": [MODEL]}
    assert metadata["parameters"]["emulated"] is (metadata["parameters"]["device"] == "tpu-emulator")


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_texts_both_ways(client: Any, expected: Any, binary_in: bool, binary_out: bool | None) -> None:
    """In JSON and behind it; without a word about the output it asks for bytes."""
    outputs = None if binary_out is None else [http.InferRequestedOutput("embedding", binary_data=binary_out)]
    given = [tensor("text", TEXTS, "BYTES", binary=binary_in)]
    result = client.infer(MODEL, given, outputs=outputs, request_id="7")
    assert result.get_response()["id"] == "7"
    assert ("parameters" in result.get_output("embedding")) == (binary_out is not False)
    got = result.as_numpy("embedding")
    assert got.dtype == np.float32
    assert np.abs(got - expected).max() < 1e-6


@pytest.mark.parametrize("request_coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_coding", [None, "gzip", "deflate"])
def test_compressed_both_ways(
    client: Any, expected: Any, request_coding: str | None, response_coding: str | None
) -> None:
    """The lengths are of the decoded body."""
    result = client.infer(
        MODEL,
        [tensor("text", TEXTS, "BYTES")],
        outputs=[http.InferRequestedOutput("embedding", binary_data=False)],
        request_compression_algorithm=request_coding,
        response_compression_algorithm=response_coding,
    )
    assert np.abs(result.as_numpy("embedding") - expected).max() < 1e-6


@pytest.mark.parametrize(
    ("datatype", "numpy"),
    [("INT64", np.int64), ("INT32", np.int32), ("UINT8", np.uint8), ("BOOL", np.bool_), ("FP32", np.float32),
     ("FP16", np.float16), ("FP64", np.float64), ("BF16", "bfloat16")],
)  # fmt: skip
def test_token_ids_with_a_mask_of_any_type(client: Any, expected: Any, datatype: str, numpy: Any) -> None:
    """Every number format of the protocol comes in as bytes."""
    kind = ml_dtypes.bfloat16 if numpy == "bfloat16" else numpy
    mask = (IDS != 0).astype(kind)
    result = client.infer(MODEL, [tensor("input_ids", IDS, "INT64"), tensor("attention_mask", mask, datatype)])
    assert np.abs(result.as_numpy("embedding")[0] - expected[0]).max() < 1e-5


@pytest.mark.parametrize(("datatype", "bound"), [("FP32", 1e-6), ("FP16", 1e-3), ("BF16", 5e-3)])
def test_narrow_numbers_come_out(client: Any, expected: Any, datatype: str, bound: float) -> None:
    """As the client reads them."""
    result = client.infer(MODEL, [tensor("text", TEXTS, "BYTES")], parameters={"output_datatype": datatype})
    assert result.get_output("embedding")["datatype"] == datatype
    assert np.abs(result.as_numpy("embedding").astype(np.float32) - expected).max() < bound


def test_its_time_out_and_priority_are_understood(client: Any) -> None:
    """The one is a deadline, the other has no effect."""
    given = [tensor("text", TEXTS, "BYTES")]
    assert client.infer(MODEL, given, timeout=60_000_000, priority=3).as_numpy("embedding").shape == (2, 384)
    with pytest.raises(http.InferenceServerException) as refused:
        client.infer(MODEL, given, timeout=1)
    assert (refused.value.status(), refused.value.message().startswith("deadline: ")) == ("504", True)


def test_its_errors_say_why(client: Any) -> None:
    """Status and sentence."""
    with pytest.raises(http.InferenceServerException, match="this server serves") as refused:
        client.infer("other", [tensor("text", TEXTS, "BYTES")])
    assert refused.value.status() == "404"
    with pytest.raises(http.InferenceServerException, match="allowed are 0 to 30521") as refused:
        client.infer(MODEL, [tensor("input_ids", np.array([[99999]], dtype=np.int64), "INT64")])
    assert refused.value.status() == "400"


def test_statistics_count_what_was_asked(client: Any) -> None:
    """By model and for all of them."""
    (before,) = client.get_inference_statistics()["model_stats"]
    client.infer(MODEL, [tensor("text", TEXTS, "BYTES")])
    (after,) = client.get_inference_statistics(MODEL)["model_stats"]
    assert after["inference_count"] == before["inference_count"] + 2
    assert after["execution_count"] == before["execution_count"] + 1
    for part in ("success", "queue", "compute_infer"):
        assert after["inference_stats"][part]["count"] == before["inference_stats"][part]["count"] + 1
