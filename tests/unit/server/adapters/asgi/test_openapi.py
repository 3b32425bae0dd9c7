"""The document and the port say the same."""

import json
import re
from typing import Any

from server.adapters.asgi.data import DataApp
from server.adapters.asgi.openapi import document
from server.adapters.asgi.view import DataView
from wire.errors import STATUS

DOCUMENT = document("1", "m")
METHODS = {"GET", "POST"}


def served() -> set[tuple[str, str]]:
    """Method and path of each route; nothing of the view is asked when routes are made."""
    unused: Any = None
    app = DataApp(DataView("m", "1", unused, unused, unused, unused, unused, unused)).litestar
    return {
        (method, re.sub(r":str}", "}", route.path))
        for route in app.routes
        for method in getattr(route, "methods", ())
        if method in METHODS
    }


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    """By method and path."""
    said = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert said == served()


def test_every_reference_leads_somewhere() -> None:
    """And the document is JSON."""
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert named <= DOCUMENT["components"]["schemas"].keys()
    assert {"InferRequest", "EmbeddingRequest", "OipErrorBody", "OpenAIErrorBody"} <= named


def test_inference_names_every_status_that_the_server_refuses_with() -> None:
    """Those of a gateway are none of them."""
    (infer,) = (DOCUMENT["paths"]["/v2/models/{model}/infer"]["post"],)
    assert {int(status) for status in infer["responses"]} >= set(STATUS.values()) - {502}
