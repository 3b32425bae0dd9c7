"""Asks an arm of profile ``ours`` whether it is ready, and what it is.

Readiness is the status of OIP's ``/v2/health/ready``; the identity comes from the model's metadata and is read again
whenever the arm becomes ready, since a restart may have changed it.
"""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from gateway.ports import ArmHealth
from wire.health import HealthBody
from wire.oip import ModelMetadata

POLL_TIMEOUT_S = 2.0
MISSES = 3
"""Polls in a row without an answer after which a ready arm is taken for unready."""


class OursProbe:
    """ports.ReadinessProbe over HTTP.

    A server that says 503 is believed at once. One that does not answer is given ``MISSES`` polls: a busy machine, or a
    connection lost on the way, is no outage. What it says of itself never makes it unready.
    """

    def __init__(self, client: httpx.AsyncClient, *, url: str, model: str) -> None:
        self._client = client
        self._ready_url = f"{url}/v2/health/ready"
        self._metadata_url = f"{url}/v2/models/{quote(model, safe='')}"
        self._identity: dict[str, Any] | None = None
        self._last = ArmHealth(ready=False, detail="not polled yet")
        self._misses = 0

    async def poll(self) -> ArmHealth:
        try:
            answer = await self._client.get(self._ready_url, timeout=POLL_TIMEOUT_S)
        except httpx.HTTPError as error:
            self._misses += 1
            detail = f"{type(error).__name__}: {error}".rstrip(": ")
            if self._last.ready and self._misses < MISSES:
                return replace(self._last, detail=f"ready; poll {self._misses} of {MISSES} missed: {detail}")
            self._identity = None
            self._last = ArmHealth(ready=False, detail=detail)
            return self._last
        self._misses = 0
        if answer.status_code == 200:
            if self._identity is None:
                self._identity = await self._read_identity()
            self._last = ArmHealth(ready=True, detail="ready", identity=self._identity, warm_up=_progress(answer))
        else:
            self._identity = None
            self._last = ArmHealth(ready=False, detail=_detail(answer), warm_up=_progress(answer))
        return self._last

    async def _read_identity(self) -> dict[str, Any] | None:
        """None when the arm does not report one that can be read."""
        try:
            answer = await self._client.get(self._metadata_url, timeout=POLL_TIMEOUT_S)
            if answer.status_code != 200:
                return None
            return msgspec.json.decode(answer.content, type=ModelMetadata).parameters or None
        except (httpx.HTTPError, msgspec.DecodeError, RecursionError):
            return None


def _progress(answer: httpx.Response) -> dict[str, Any] | None:
    try:
        body = msgspec.json.decode(answer.content, type=HealthBody)
    except (msgspec.DecodeError, RecursionError):
        return None
    return {"state": body.state, "bucket": body.bucket, "buckets": body.buckets, "elapsed_s": body.elapsed_s}


def _detail(answer: httpx.Response) -> str:
    progress = _progress(answer)
    if progress is None:
        return f"status {answer.status_code}"
    if progress["state"] == "warming":
        return f"warming: bucket {progress['bucket']} of {progress['buckets']}"
    return str(progress["state"])
