"""Readiness polls: what the arm says, and what it is."""

import asyncio

import httpx
import msgspec

from gateway.adapters.readiness import OursProbe
from gateway.ports import ArmHealth
from wire.health import HealthBody
from wire.oip import ModelMetadata


def poll(*answers: httpx.Response | Exception) -> list[ArmHealth]:
    """One poll per scripted ready answer; metadata is always served."""
    metadata = ModelMetadata(
        name="m", versions=["1"], platform="p", inputs=[], outputs=[], parameters={"dtype": "float32"}
    )
    script = list(answers)
    metadata_reads = []

    def serve(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v2/models/m":
            metadata_reads.append(1)
            return httpx.Response(200, content=msgspec.json.encode(metadata))
        step = script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def run() -> list[ArmHealth]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(serve)) as client:
            probe = OursProbe(client, url="http://arm:1", model="m")
            return [await probe.poll() for _ in answers]

    found = asyncio.run(run())
    assert len(metadata_reads) <= sum(1 for h in found if h.ready)
    return found


def body(state: str, **more: object) -> httpx.Response:
    health = HealthBody(state=state, elapsed_s=1.0, **more)  # type: ignore[arg-type]  # any state, any detail
    return httpx.Response(200 if state == "ready" else 503, content=msgspec.json.encode(health))


def test_a_warming_arm_is_not_ready_and_says_how_far_it_is() -> None:
    """503 with progress becomes a sentence for the status."""
    (health,) = poll(body("warming", bucket=3, buckets=12))
    assert (health.ready, health.detail) == (False, "warming: bucket 3 of 12")


def test_a_ready_arm_reports_its_identity_once_per_readiness() -> None:
    """The identity is read when the arm becomes ready, and again after it was away."""
    found = poll(body("ready"), body("ready"), body("draining"), body("ready"))
    assert [h.ready for h in found] == [True, True, False, True]
    assert found[0].identity == {"dtype": "float32"}


def test_a_missed_poll_is_no_outage_but_three_are() -> None:
    """A ready arm stays ready through two polls without an answer; a 503 is believed at once."""
    lost = httpx.ConnectError("refused")
    found = poll(body("ready"), lost, lost, body("ready"), lost, lost, lost, body("ready"))
    assert [h.ready for h in found] == [True, True, True, True, True, True, False, True]
    assert "poll 2 of 3 missed: ConnectError" in found[2].detail
    assert [h.ready for h in poll(lost, body("ready"))] == [False, True]


def test_an_arm_with_another_body_still_counts_by_its_status() -> None:
    """Readiness is the status code alone."""
    (health,) = poll(httpx.Response(503, content=b"starting"))
    assert (health.ready, health.detail) == (False, "status 503")
