"""Requests made up from the server's own OpenAPI document: no 500, and every answer as the document says."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from integration.server.running import RunningServer
from schemathesis import checks


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_every_answer_is_as_the_document_says(cpu_server: RunningServer, mode: str) -> None:
    """To requests that fit the document and to those that do not: status, content type and body are declared in it."""
    document = schemathesis.openapi.from_url(str(cpu_server.data.base_url.join("/openapi.json")))
    asked: set[str] = set()
    statuses: set[int] = set()
    for found in document.get_all_operations():
        operation = found.ok()
        generation = schemathesis.GenerationMode(mode)
        if mode == "negative" and not operation.body:
            continue  # there is nothing to get wrong

        @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=generation))
        def ask(case: Any) -> None:
            answer = case.call_and_validate(
                checks=[
                    checks.status_code_conformance,
                    checks.content_type_conformance,
                    checks.response_schema_conformance,
                ]
            )
            # A deadline of a millisecond is a request that fits the document, and passes before any answer.
            assert answer.status_code < 500 or answer.status_code == 504
            statuses.add(answer.status_code)

        ask()
        asked.add(operation.label)
    assert (200 if mode == "positive" else 400) in statuses
    assert {"POST /v1/embeddings", "POST /v2/models/{model}/infer"} <= asked
    assert cpu_server.process.poll() is None
