"""Asks the server itself, over HTTP, as a client does: what a request costs beside the device."""

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from server.core.smoke import ServedBucket, Service
from server.core.types import Bucket
from wire import headers

READY_S: Final = 1800.0
REQUESTS: Final = 30
CONNECTIONS: Final = 8
TOGETHER: Final = 400
TOGETHER_S: Final = 10.0
TIMEOUT_S: Final = 120.0
END_S: Final = 60.0


Body = tuple[bytes, dict[str, str]]
"""Of a request, and its headers."""
BodyOf = Callable[[Mapping[str, Any], Bucket], Body]
"""From the server's answer about its model."""


class ServiceFailed(Exception):
    """The server did not become ready, or does not answer; the text says what it said."""


def measure(config: Path, ports: Path, log: Path, model: str, body_of: BodyOf, buckets: tuple[Bucket, ...]) -> Service:
    """Starts a server, waits until it is ready, asks each bucket alone and then several connections together."""
    with _running(config, log) as process:
        admin, data, ready_s = _wait_ready(process, ports, log)
        health = json.loads(_get(admin, "/livez"))
        sources = {each["bucket"]: each["source"] for each in health.get("warm_up", [])}
        metadata = json.loads(_get(data, f"/v2/models/{model}"))
        bodies = {bucket: body_of(metadata, bucket) for bucket in buckets}
        served = tuple(
            _alone(data, model, bucket, bodies[bucket], sources.get(str(bucket))) for bucket in sorted(bodies)
        )
        single = [body_of(metadata, replace(bucket, batch=1)) for bucket in sorted(bodies)]
        together = _together(data, model, single)
        compiles = sum(int(float(line.rsplit(" ", 1)[1])) for line in _get(admin, "/metrics").splitlines()
                       if line.startswith('canary_server_compiles_total{phase="serving"}'))  # fmt: skip
    seconds, failed, spent = together
    return Service(
        ready_s=ready_s,
        buckets=served,
        requests=len(seconds) + failed,
        failed=failed,
        seconds=spent,
        connections=CONNECTIONS,
        per_s=len(seconds) / spent,
        p50_ms=1000 * median(seconds) if seconds else 0.0,
        p99_ms=1000 * quantiles(seconds, n=100, method="inclusive")[98] if len(seconds) > 1 else 0.0,
        compiles_after=compiles,
    )


@contextmanager
def _running(config: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "--config", str(config)], stdin=subprocess.DEVNULL, stderr=stderr
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: "subprocess.Popen[bytes]", ports: Path, log: Path) -> tuple[int, int, float]:
    began = time.perf_counter()
    while time.perf_counter() - began < READY_S:
        if process.poll() is not None:
            raise ServiceFailed(f"the server ended with exit code {process.returncode}; its log is {log}")
        if ports.exists():
            listening = json.loads(ports.read_text())
            health = json.loads(_get(listening["admin"], "/livez"))
            if health["state"] == "failed":
                raise ServiceFailed(f"the server failed: {health['detail']}")
            if health["state"] == "ready":
                return listening["admin"], listening["data"], time.perf_counter() - began
        time.sleep(0.05)
    raise ServiceFailed(f"the server was not ready within {READY_S:.0f} s; its log is {log}")


def _get(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _ask(connection: http.client.HTTPConnection, model: str, body: Body) -> tuple[float, bool, Any]:
    """Seconds, whether it was answered 200, and the answer's headers."""
    began = time.perf_counter()
    connection.request("POST", f"/v2/models/{model}/infer", *body)
    answer = connection.getresponse()
    answer.read()
    return time.perf_counter() - began, answer.status == 200, answer.headers


def _alone(port: int, model: str, bucket: Bucket, body: Body, source: Any) -> ServedBucket:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    asked = [_ask(connection, model, body) for _ in range(REQUESTS)]
    connection.close()
    answered = [(seconds, found) for seconds, good, found in asked if good]
    if not answered:
        raise ServiceFailed(f"the server answered none of {REQUESTS} requests of shape {bucket}")
    return ServedBucket(
        bucket=bucket,
        requests=REQUESTS,
        failed=REQUESTS - len(answered),
        request_ms=1000 * median(seconds for seconds, _ in answered),
        device_ms=median(float(found[headers.DEVICE_MS]) for _, found in answered),
        source=source,
    )


def _together(port: int, model: str, bodies: list[Body]) -> tuple[list[float], int, float]:
    """Seconds of the answered requests, how many were not, and how long all took: TOGETHER_S and TOGETHER at least."""
    seconds: list[float] = []
    failed: list[str] = []

    def client(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        number = 0
        while number < TOGETHER // CONNECTIONS or time.perf_counter() - began < TOGETHER_S:
            number += 1
            try:
                took, good, _ = _ask(connection, model, bodies[(first + number) % len(bodies)])
            except (OSError, http.client.HTTPException) as error:
                failed.append(str(error))
                break
            (seconds if good else failed).append(took)  # type: ignore[arg-type]  # failures are counted only
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CONNECTIONS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds, len(failed), time.perf_counter() - began
