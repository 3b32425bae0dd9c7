"""What KServe's REST client sends, to the byte. The client itself asks in tests/tools/test_kserve.py."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integration.server.running import RunningServer

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "kserve_requests.json").read_text())[
    "requests"
]
MODEL = "all-MiniLM-L6-v2"
INFER = f"/v2/models/{MODEL}/infer"
HELLO, WRONG = [101, 7592, 2088, 102], b'"id":"wrong"'


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_a_recorded_request_gets_its_answer(any_server: RunningServer, number: int) -> None:
    """Health, vectors as JSON or behind it, and a refusal for each of its two mistakes."""
    asked = RECORDED[number]
    body = base64.b64decode(asked["body"])
    answer = any_server.data.request(asked["method"], asked["path"], headers=asked["headers"], content=body)
    if "/models/other" in asked["path"]:
        assert (answer.status_code, answer.json()["reason"]) == (404, "model_not_found")
    elif asked["path"] != INFER:
        assert answer.status_code == 200
        assert True in answer.json().values()
    elif WRONG in body:
        assert (answer.status_code, answer.json()["reason"]) == (400, "bad_request")
    else:
        given: Any = ["Hello world", "naïve café"] if b'"text"' in body else HELLO
        expected = [item["embedding"] for item in any_server.embed(given).json()["data"]]
        assert np.abs(vectors(answer) - np.array(expected)).max() < 1e-3


def vectors(answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    cut = answer.headers.get("inference-header-content-length")
    (output,) = json.loads(answer.content if cut is None else answer.content[: int(cut)])["outputs"]
    if cut is None:
        values = np.array(output["data"])
    else:
        values = np.frombuffer(answer.content[int(cut) :], {"FP32": "<f4", "FP16": "<f2"}[output["datatype"]])
    return values.reshape(output["shape"])
