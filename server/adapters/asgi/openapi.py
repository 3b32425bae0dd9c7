"""The data port in OpenAPI 3.1, made of the same types that read and write its bodies."""

from typing import Any, Final

import msgspec

from server.adapters.asgi.answers import JSON
from wire import framing, headers
from wire.coding import CODINGS
from wire.errors import OipErrorBody, OpenAIErrorBody
from wire.oip import InferRequest, InferResponse, ModelList, ModelMetadata, ModelReady, ServerMetadata
from wire.openai import MAX_ITEMS, EmbeddingRequest, EmbeddingResponse
from wire.openai import PATH as EMBEDDINGS
from wire.statistics import StatisticsResponse

Json = dict[str, Any]
_COMPONENTS: Final = "#/components/schemas/{name}"
_TYPES: Final = (
    EmbeddingRequest, EmbeddingResponse, OpenAIErrorBody, InferRequest, InferResponse, OipErrorBody, ServerMetadata,
    ModelList, ModelMetadata, ModelReady, StatisticsResponse,
)  # fmt: skip
_WHY: Final = {
    400: "Malformed, or a shape outside of the catalogue.",
    404: "Another model or version, or no such path.",
    405: "Another method.",
    408: "The body did not come in time.",
    413: "The body is too large, decoded or not.",
    415: "A content type or content coding that is not read.",
    429: "The queue is full.",
    500: "An error of the server, or the device.",
    503: "Not ready, or draining.",
    504: "The time that the caller named has passed.",
}
_INFERENCE: Final = tuple(_WHY)
_QUESTION: Final = (400, 404, 405, 500, 503)
_VERSIONED: Final = "/versions/{version}"


def document(version: str, model: str) -> Json:
    """``version`` is the program's, ``model`` the name of what it serves."""
    _, schemas = msgspec.json.schema_components(_TYPES, ref_template=_COMPONENTS)
    # What the types cannot say: which name is served, and what the list of an embedding request may hold.
    schemas[EmbeddingRequest.__name__]["properties"] |= {"model": {"const": model}, "input": _inputs()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "tpu-canary inference server", "version": version},
        "paths": _paths(model),
        "components": {"schemas": schemas},
    }


def _paths(served: str) -> Json:
    model = "/v2/models/{model}"
    paths: Json = {
        EMBEDDINGS: {"post": _embeddings()},
        "/openapi.json": {"get": _get("This document.", {"type": "object"})},
        "/v2": {"get": _get("Name, version and extensions of the server.", _ref(ServerMetadata))},
        "/v2/health/live": {"get": _get("Whether the server lives.", _flag("live"))},
        "/v2/health/ready": {"get": _get("Whether the model is ready.", _flag("ready"))},
        "/v2/models": {"get": _get("The models.", _ref(ModelList))},
        "/v2/models/stats": {"get": _get("Statistics of every model.", _ref(StatisticsResponse))},
    }
    for under in (model, model + _VERSIONED):
        paths[under] = {
            "get": _get("What the model takes and gives, and its identity.", _ref(ModelMetadata), under, served)
        }
        paths[f"{under}/ready"] = {"get": _get("Whether the model is ready.", _ref(ModelReady), under, served)}
        paths[f"{under}/stats"] = {"get": _get("Statistics in Triton's form.", _ref(StatisticsResponse), under, served)}
        paths[f"{under}/infer"] = {"post": _infer(under, served)}
    return paths


def _embeddings() -> Json:
    return {
        "summary": "Vectors of texts or token ids, as OpenAI has it.",
        "parameters": _asked_in_headers(),
        "requestBody": {"required": True, "content": {JSON: {"schema": _ref(EmbeddingRequest)}}},
        "responses": {
            "200": {
                "description": "One vector for each input.",
                "headers": _told_in_headers(),
                "content": {JSON: {"schema": _ref(EmbeddingResponse)}},
            },
            **_refusals(_INFERENCE, _ref(OpenAIErrorBody)),
        },
    }


def _infer(path: str, model: str) -> Json:
    length = {
        "name": framing.HEADER,
        "in": "header",
        "description": "Bytes of JSON before binary tensors; needed where there are any.",
        "schema": {"type": "integer", "minimum": 1},
    }
    octets = {"type": "string", "format": "binary", "description": "JSON, then the bytes of the binary tensors."}
    return {
        "summary": "Open Inference Protocol v2, with binary tensors.",
        "description": "The parameter `timeout` (microseconds) is a deadline, `output_datatype` (FP32, FP16, BF16) "
        "narrows the output, `priority` is read and has no effect. Raw binary requests are not served.",
        "parameters": [*_in_path(path, model), length, *_asked_in_headers()],
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": _ref(InferRequest)}, framing.OCTETS: {"schema": octets}},
        },
        "responses": {
            "200": {
                "description": "The outputs.",
                "headers": {**_told_in_headers(), framing.HEADER: {"schema": {"type": "integer"}}},
                "content": {JSON: {"schema": _ref(InferResponse)}, framing.OCTETS: {"schema": octets}},
            },
            **_refusals(_INFERENCE, _ref(OipErrorBody)),
        },
    }


def _get(summary: str, schema: Json, path: str = "", model: str = "") -> Json:
    return {
        "summary": summary,
        "parameters": _in_path(path, model),
        "responses": {
            "200": {"description": summary, "content": {JSON: {"schema": schema}}},
            **_refusals(_QUESTION, _ref(OipErrorBody)),
        },
    }


def _in_path(path: str, model: str) -> list[Json]:
    schemas: Json = {"model": {"type": "string", "enum": [model]}, "version": {"type": "string", "minLength": 1}}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in schemas.items()
        if f"{{{name}}}" in path
    ]


def _inputs() -> Json:
    text: Json = {"type": "string"}
    ids: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
    several = [{"type": "array", "items": item, "minItems": 1, "maxItems": MAX_ITEMS} for item in (text, ids)]
    return {"anyOf": [text, several[0], ids, several[1]]}


def _asked_in_headers() -> list[Json]:
    coding = {"type": "string", "enum": ["identity", *CODINGS]}
    return [
        {"name": "content-encoding", "in": "header", "schema": coding},
        {"name": headers.REQUEST_ID, "in": "header", "schema": {"type": "string"}},
        {"name": headers.DEADLINE_MS, "in": "header", "schema": {"type": "integer", "minimum": 1}},
    ]


def _told_in_headers() -> Json:
    return {name: {"schema": {"type": "string"}} for name in sorted(headers.TIMINGS)}


def _refusals(statuses: tuple[int, ...], schema: Json) -> Json:
    return {str(s): {"description": _WHY[s], "content": {JSON: {"schema": schema}}} for s in statuses}


def _flag(name: str) -> Json:
    return {"type": "object", "properties": {name: {"const": True}}, "required": [name]}


def _ref(kind: type) -> Json:
    return {"$ref": _COMPONENTS.format(name=kind.__name__)}
