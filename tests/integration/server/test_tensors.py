"""Models that take their own tensors behind the real front process: pictures and tables, with Triton's own client."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import tiny_models
from integration.server.running import RunningServer, running

from gateway.adapters.answers import compare_pair
from gateway.core.compare.defaults import BOUNDS, policy_with
from gateway.core.compare.result import PairKind, PairResult
from gateway.core.plan import MetricId, MetricLimit, Plan
from gateway.core.snapshot import Answer, Pair
from gateway.core.types import Role
from wire.framing import HEADER, framed_type

http: Any = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not in the development lock yet")
TESTS = Path(__file__).parents[2]


def served(where: Path, build: str, declared: dict[str, Any], **changes: Any) -> Any:
    """``with served(...) as server``: a python-factory model called ``m``."""
    folder = tiny_models.factory(where / "model", getattr(tiny_models, build), declared)
    model = {"name": "m", "path": str(folder), "format": "python-factory", "factory": f"fakes.tiny_models:{build}"}
    return running(where, model=model, **changes)


@pytest.fixture(autouse=True, scope="module")
def _environment() -> Iterator[None]:
    """The factory is on the server's import path, and torch in this process loads no backend by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        patch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        yield


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Sizes 4 x 6 and 8 x 6, batches of 1 and 2."""
    shapes = {"batch": [1, 2], "height": [4, 8], "width": [6]}
    with served(tmp_path_factory.mktemp("p"), "encoder", tiny_models.ENCODED, catalogue=shapes) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        yield server


def client_of(server: RunningServer) -> Any:
    return http.InferenceServerClient(f"{server.data.base_url.host}:{server.data.base_url.port}")


def tensor(name: str, values: Any, datatype: str, *, binary: bool = True) -> Any:
    given = http.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values, binary_data=binary)
    return given


def drawn(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def expected(pixels: Any) -> dict[str, Any]:
    import torch

    with torch.inference_mode():
        return {name: value.numpy() for name, value in tiny_models.encoder()(torch.from_numpy(pixels)).items()}


@pytest.mark.parametrize("binary", [True, False])
def test_pictures_give_every_output_as_declared(pictures: RunningServer, binary: bool) -> None:
    """Several outputs, of floats and of whole numbers, in parts where there are more rows than a batch has."""
    pixels = drawn(3, 3, 8, 6)
    with client_of(pictures) as client:
        result = client.infer("m", [tensor("pixels", pixels, "FP32", binary=binary)])
    want = expected(pixels)
    assert result.as_numpy("heat").dtype == np.float16
    assert result.as_numpy("brightest").dtype == np.int64
    for name, tolerance in (("embedding", 1e-5), ("heat", 2e-3), ("brightest", 0)):
        np.testing.assert_allclose(result.as_numpy(name), want[name], rtol=tolerance, atol=tolerance)


def test_only_the_outputs_that_are_asked_for_come_in_their_order(pictures: RunningServer) -> None:
    """Each in its own form."""
    pixels = drawn(1, 3, 4, 6)
    outputs = [http.InferRequestedOutput("brightest", binary_data=False), http.InferRequestedOutput("embedding")]
    with client_of(pictures) as client:
        result = client.infer("m", [tensor("pixels", pixels, "FP32")], outputs=outputs)
    assert [each["name"] for each in result.get_response()["outputs"]] == ["brightest", "embedding"]
    assert "data" in result.get_output("brightest")
    np.testing.assert_allclose(result.as_numpy("embedding"), expected(pixels)["embedding"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "reason", "part"),
    [
        ({"shape": [1, 3, 5, 6]}, "shape_not_served", "height 5, width 6"),
        ({"shape": [1, 2, 4, 6]}, "bad_request", "[-1, 3, 'height', 'width']"),
        ({"shape": [1, 3, 4, 6], "datatype": "FP64"}, "bad_request", "allowed is FP16 or BF16 or FP32"),
        ({"shape": [1, 3, 4, 6], "name": "image"}, "bad_request", "pixels FP32"),
        ({"shape": [1, 3, 4, 6], "data": [1e300] * 72}, "bad_request", "beyond FP32"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_allowed(
    pictures: RunningServer, given: dict[str, Any], reason: str, part: str
) -> None:
    """Nothing is padded, and the server goes on."""
    shape = given["shape"]
    input_ = {"name": "pixels", "datatype": "FP32", "data": [0.5] * int(np.prod(shape)), **given}
    answer = pictures.data.post("/v2/models/m/infer", json={"inputs": [input_]})
    assert (answer.status_code, answer.json()["reason"]) == (400, reason), answer.text
    assert part in answer.json()["error"]
    assert pictures.health()["state"] == "ready"


def test_text_and_embeddings_are_not_for_such_a_model(pictures: RunningServer) -> None:
    """It says where to go instead, and its metadata names its own tensors."""
    answer = pictures.data.post("/v1/embeddings", json={"model": "m", "input": "a"})
    assert answer.status_code == 400
    assert "takes pixels and gives embedding, heat, brightest" in answer.json()["error"]["message"]
    described = pictures.data.get("/v2/models/m").json()
    assert described["inputs"] == [{"name": "pixels", "datatype": "FP32", "shape": [-1, 3, -1, -1]}]
    assert [each["datatype"] for each in described["outputs"]] == ["FP32", "FP16", "INT64"]
    assert described["parameters"]["shapes"]["heat"] == [-1, "height", "width"]


def test_declared_zeros_serve_smaller_pictures_and_give_the_same_answer(tmp_path: Path) -> None:
    """What was appended is cut from the answer again; one larger than every shape is refused."""
    shapes = {"batch": [1, 2], "height": [4, 8], "width": [6]}
    declared = {**tiny_models.ENCODED, "padding": "zeros"}
    with served(tmp_path, "encoder", declared, catalogue=shapes) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        pixels = drawn(2, 3, 5, 4)
        with client_of(server) as client:
            result = client.infer("m", [tensor("pixels", pixels, "FP32")])
            assert result.as_numpy("heat").shape == (2, 5, 4)
            for name, value in expected(pixels).items():
                np.testing.assert_allclose(result.as_numpy(name), value, rtol=2e-3, atol=2e-3)
            with pytest.raises(Exception, match="at most 2 rows of height 8, width 6"):
                client.infer("m", [tensor("pixels", drawn(1, 3, 9, 6), "FP32")])


def test_a_catalogue_that_does_not_fit_the_model_fails_with_every_reason(tmp_path: Path) -> None:
    """Before anything is warmed."""
    shapes = {"batch": [1], "height": [4], "depth": [2]}
    with served(tmp_path, "encoder", tiny_models.ENCODED, catalogue=shapes) as server:
        detail = server.wait_state("failed")["detail"]
    assert "'width', the catalogue has depth, height" in detail
    assert "catalogue.depth: no input of the model has this dimension" in detail


@pytest.mark.emulator
@pytest.mark.parametrize(("datatype", "tolerance"), [("FP16", 2e-3), ("BF16", 2e-2)])
def test_rows_of_half_precision_on_the_emulated_tpu(tmp_path: Path, datatype: str, tolerance: float) -> None:
    """In and out; a catalogue of batch alone; nothing compiles for them."""
    import torch

    narrow: Any = np.float16 if datatype == "FP16" else pytest.importorskip("ml_dtypes").bfloat16
    declared = tiny_models.tabular_declaration(datatype)
    with served(
        tmp_path, "tabular", declared, emulator=True, device="tpu-emulator", catalogue={"batch": [1, 4]}
    ) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        features = drawn(3, 32).astype(narrow)
        with client_of(server) as client:
            result = client.infer("m", [tensor("features", features, datatype)])
            logits, scores = result.as_numpy("logits"), result.as_numpy("scores")
        with torch.inference_mode():
            want = tiny_models.tabular()(torch.from_numpy(features.astype(np.float32)))
        assert scores.dtype == np.float32
        assert result.get_output("logits")["datatype"] == datatype
        np.testing.assert_allclose(scores, want["scores"].numpy(), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(logits.astype(np.float32), want["logits"].numpy(), rtol=tolerance, atol=tolerance)
        assert server.metric('canary_server_compiles_total{phase="serving"}') == 0


@pytest.mark.parametrize("binary", [True, False])
def test_a_gateway_compares_every_output(pictures: RunningServer, binary: bool) -> None:
    """By its default policy: floats within bounds, whole numbers exactly, in the JSON or behind it."""
    plan = Plan(
        rollout="r",
        steps=(1000,),
        metrics=(
            MetricLimit(metric=MetricId.ERROR, allowed=0.05),
            MetricLimit(metric=MetricId.PARITY, allowed=0.05),
        ),
        compare=policy_with(BOUNDS["float32"]).canonical_text(),
        copies=5000,
    )
    first, second = (_asked(pictures, drawn(1, 3, 4, 6) * sign, binary=binary) for sign in (1, -1))
    same = replace(first, body=first.body.replace(b'"outputs"', b' "outputs"', 1) if not binary else first.body)
    for other, kinds in ((same, {PairKind.OK}), (second, {PairKind.TOLERANCE})):
        pair = Pair(epoch=1, window=1, request_id="id", path="/v2/models/m/infer", served=Role.BASELINE,
                    body_hash=b"h", baseline=first, candidate=other)  # fmt: skip
        found = compare_pair(pair, plan)
        assert isinstance(found, PairResult)
        assert {found.kind} == kinds, found.detail


def _asked(server: RunningServer, pixels: Any, *, binary: bool) -> Answer:
    """The answer as a gateway keeps it."""
    tensor = {"name": "pixels", "datatype": "FP32", "shape": list(pixels.shape), "data": pixels.ravel().tolist()}
    request = {"inputs": [tensor], "parameters": {"binary_data_output": binary}}
    answer = server.data.post("/v2/models/m/infer", json=request)
    kind = answer.headers["content-type"]
    kind = framed_type(kind, answer.headers[HEADER]) if binary else kind
    return Answer(status=answer.status_code, content_type=kind, body=answer.content)
