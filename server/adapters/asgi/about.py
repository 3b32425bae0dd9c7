"""What the data port says about itself: health, metadata and statistics of the Open Inference Protocol, and OpenAPI."""

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from server.adapters.asgi import oip
from server.adapters.asgi.answers import json_response
from server.adapters.asgi.openapi import document
from server.adapters.asgi.view import DataView
from wire.oip import EXTENSIONS, ModelList, ModelMetadata, ModelReady, ServerMetadata, TensorMetadata
from wire.statistics import StatisticsResponse


def about_routes(view: DataView) -> list[HTTPRouteHandler]:
    """Answered from memory, also while the model loads: what is not known then is 503."""
    openapi = msgspec.json.encode(document(view.version, view.model))

    @get("/openapi.json")
    async def openapi_document() -> Response[bytes]:
        return json_response(openapi)

    @get("/v2")
    async def server_metadata() -> Response[bytes]:
        return _json(ServerMetadata("tpu-canary", view.version, list(EXTENSIONS)))

    @get("/v2/models")
    async def models() -> Response[bytes]:
        return _json(ModelList([view.model]))

    @get(["/v2/models/{model:str}", "/v2/models/{model:str}/versions/{version:str}"])
    async def model_metadata(model: FromPath[str], version: FromPath[str | None] = None) -> Response[bytes]:
        view.check_model(model, version)
        return _json(_metadata(view))

    @get("/v2/health/live")
    async def live() -> Response[bytes]:
        if not view.life().live:
            raise view.not_ready()
        return json_response(b'{"live":true}')

    @get("/v2/health/ready")
    async def ready() -> Response[bytes]:
        view.check_ready()
        return json_response(b'{"ready":true}')

    @get(["/v2/models/{model:str}/ready", "/v2/models/{model:str}/versions/{version:str}/ready"])
    async def model_ready(model: FromPath[str], version: FromPath[str | None] = None) -> Response[bytes]:
        view.check_model(model, version)
        view.check_ready()
        return _json(ModelReady(model, True))

    @get(["/v2/models/{model:str}/stats", "/v2/models/{model:str}/versions/{version:str}/stats"])
    async def model_statistics(model: FromPath[str], version: FromPath[str | None] = None) -> Response[bytes]:
        view.check_model(model, version)
        return _json(StatisticsResponse([view.statistics(view.model, view.model_version())]))

    @get("/v2/models/stats")
    async def statistics() -> Response[bytes]:
        return _json(StatisticsResponse([view.statistics(view.model, view.model_version())]))

    return [
        openapi_document,
        server_metadata,
        models,
        model_metadata,
        live,
        ready,
        model_ready,
        model_statistics,
        statistics,
    ]


def _json(body: msgspec.Struct) -> Response[bytes]:
    return json_response(msgspec.json.encode(body))


def _metadata(view: DataView) -> ModelMetadata:
    """Raises NotReady before the model is loaded."""
    identity, facts = view.identity(), view.facts()
    if identity is None or facts is None:
        raise view.not_ready()
    signature = facts.signature
    return ModelMetadata(
        name=view.model,
        versions=[view.model_version()],
        platform="pytorch",
        inputs=oip.inputs(signature, texts=view.predictor.reads_text),
        outputs=[TensorMetadata(spec.name, spec.datatype, list(spec.shape)) for spec in signature.outputs],
        parameters={
            **msgspec.structs.asdict(identity),
            "identity_digest": identity.digest(),
            "task": signature.task,
            "labels": list(signature.labels),
            "scores": signature.scores,
            "output": signature.about,
            "shapes": {spec.name: spec.spelt for spec in (*signature.inputs, *signature.outputs)},
            "padding": "mask" if signature.takes_tokens else signature.padding,
        },
    )
