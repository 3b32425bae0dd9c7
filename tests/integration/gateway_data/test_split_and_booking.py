"""Who answers and who is charged, seen from the client, both arms and the worker's reports."""

import asyncio
import time
from collections import Counter

import pytest
from integration.gateway_data.harness import (
    Arm,
    Behaviour,
    Seen,
    answer,
    canary,
    free_port,
    hangs,
    resets,
    run,
    says,
    snapshot_of,
    worker,
    writes,
)

from gateway.core.types import Count, Lane, Role

BASELINE, CANDIDATE = Role.BASELINE, Role.CANDIDATE
LIVE, COPY, CLIENT = Lane.LIVE, Lane.COPY, Lane.CLIENT
FROM_BASELINE, FROM_CANDIDATE = b'{"from":"baseline"}', b'{"from":"candidate"}'
SHORT = {"candidate": {"first_byte_s": 0.2, "idle_s": 0.2}}


def test_share_of_the_candidate_follows_the_weight() -> None:
    """Of many requests the candidate gets its weight, and every one is booked where it was answered."""

    async def scenario() -> None:
        async with canary(says(FROM_BASELINE), says(FROM_CANDIDATE), weight=3000) as (gateway, one, other):
            async with gateway.client() as client:
                arms: Counter[str] = Counter()
                for _ in range(400):
                    await client.send("POST", "/v1/embeddings", b'{"model":"m"}', {})
                    arms[(await client.answer()).headers["x-canary-arm"]] += 1
            assert abs(arms["tpu"] - 120) < 50
            assert (len(one.seen), len(other.seen)) == (arms["gpu"], arms["tpu"])
            await gateway.settled()
            assert gateway.count(BASELINE, LIVE, Count.OK) == arms["gpu"]
            assert gateway.count(CANDIDATE, LIVE, Count.OK) == arms["tpu"]
            assert gateway.count(CANDIDATE, LIVE, Count.LAT95_N) == arms["tpu"]
            assert gateway.count(CANDIDATE, CLIENT, Count.OK) == arms["tpu"]

    run(scenario())


def test_a_sticky_key_keeps_its_arm() -> None:
    """With a key header every request of a key goes to one arm, and different keys to both."""

    async def scenario() -> None:
        async with canary(says(), says(), weight=5000, key_header="X-Tenant") as (gateway, _, _):
            arms = {
                tenant: {(await gateway.ask(headers={"x-tenant": tenant})).headers["x-canary-arm"] for _ in range(4)}
                for tenant in (f"tenant-{i}" for i in range(12))
            }
            assert all(len(seen) == 1 for seen in arms.values())
            assert set.union(*arms.values()) == {"gpu", "tpu"}

    run(scenario())


async def _half_then_reset(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(FROM_CANDIDATE)[:-5])
    await writer.drain()
    writer.transport.abort()


async def _half_then_nothing(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(FROM_CANDIDATE)[:-5])


@pytest.mark.parametrize(
    "fault",
    [
        resets,
        hangs,
        says(b"{}", 500),
        says(b"{}", 503),
        says(b"{}", 429),
        _half_then_reset,
        _half_then_nothing,
        writes(b"SSH-2.0-OpenSSH_9.2\r\n"),
        writes(b"HTTP/1.1 200 OK\r\ncontent-length: nonsense\r\n\r\n"),
        writes(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"),
        writes(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000),
        writes(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
    ],
    ids=[
        "reset", "hang", "500", "503", "429", "dies-in-body", "hangs-in-body", "no-http", "bad-length", "two-lengths",
        "endless-head", "upgrade",
    ],
)  # fmt: skip
def test_a_failing_candidate_costs_no_client_an_error(fault: Behaviour) -> None:
    """Whatever the candidate does instead of answering, the baseline answers and the candidate is charged once."""

    async def scenario() -> None:
        async with canary(says(FROM_BASELINE), fault, weight=10_000, **SHORT) as (gateway, one, other):
            for _ in range(3):
                got = await gateway.ask()
                assert (got.status, got.body) == (200, FROM_BASELINE)
                assert got.headers["x-canary-arm"] == "gpu"
                assert got.headers["x-canary-failover"] == "failed"
            assert len(other.seen) == len(one.seen) == 3
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED) == 3
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED_OVER) == 3
            assert gateway.count(BASELINE, LIVE, *Count) == 0
            assert gateway.count(BASELINE, CLIENT, Count.OK) == 3
            assert gateway.reports[-1].recent_failovers == 3
            assert sum(seconds[2] for report in gateway.reports for seconds in report.seconds) <= 3

    run(scenario())


def test_a_candidate_that_refuses_connections_costs_no_client_an_error() -> None:
    """A closed port is a failed attempt like any other."""

    async def scenario() -> None:
        async with Arm(says(FROM_BASELINE)) as one, worker() as gateway:
            await gateway.follow(snapshot_of(one, free_port(), weight=10_000))
            assert (await gateway.ask()).body == FROM_BASELINE
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED) == 1

    run(scenario())


def test_a_refusal_of_the_candidate_alone_is_booked_refused() -> None:
    """What the candidate refuses and the baseline accepts is answered by the baseline and booked refused."""

    async def scenario() -> None:
        refuses = says(b'{"error":"shape_not_served"}', 400)
        async with canary(says(FROM_BASELINE), refuses, weight=10_000) as (gateway, _, _):
            got = await gateway.ask()
            assert (got.status, got.body, got.headers["x-canary-failover"]) == (200, FROM_BASELINE, "refused")
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.REFUSED) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED_OVER) == 0

    run(scenario())


def test_a_refusal_of_both_is_the_clients_fault() -> None:
    """The client gets the baseline's 400, and neither arm is charged."""

    async def scenario() -> None:
        async with canary(says(b'{"limit":"b"}', 400), says(b'{"limit":"c"}', 422), weight=10_000) as (gateway, _, _):
            got = await gateway.ask()
            assert (got.status, got.body) == (400, b'{"limit":"b"}')
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.CLIENT_FAULT) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.OK, Count.REFUSED, Count.FAILED) == 0
            assert gateway.count(BASELINE, LIVE, *Count) == 0

    run(scenario())


def test_an_unready_candidate_is_booked_unavailable() -> None:
    """Once it was ready in the epoch, the candidate is charged for what the baseline serves in its place."""

    async def scenario() -> None:
        unready = {"weight": 10_000, "candidate": {"ready": False}}
        async with canary(says(FROM_BASELINE), says(), **unready) as (gateway, _, other):
            assert (await gateway.ask()).headers["x-canary-failover"] == "unavailable"
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.UNAVAILABLE) == 1
            await gateway.change(candidate_was_ready=False)
            assert "x-canary-failover" not in (await gateway.ask()).headers
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.UNAVAILABLE) == 1
            assert other.seen == []

    run(scenario())


def test_a_saturated_candidate_is_booked_unavailable() -> None:
    """Beyond its in-flight limit the candidate's requests are the baseline's, and charged."""

    async def scenario() -> None:
        async with (
            canary(says(FROM_BASELINE), hangs, weight=10_000, candidate={"max_in_flight": 1}) as (
                gateway,
                _,
                other,
            ),
            gateway.client() as client,
        ):
            await client.send("POST", "/v1/embeddings", b'{"model":"m"}', {})
            await other.until(lambda: len(other.seen) == 1)
            assert (await gateway.ask()).headers["x-canary-failover"] == "unavailable"
            assert len(other.seen) == 1

    run(scenario())


def test_a_full_or_absent_baseline_is_answered_for() -> None:
    """The gateway says which it was, in the shape of the protocol the client speaks; unready alone is no reason."""

    async def scenario() -> None:
        async with canary(hangs, says(), baseline={"max_in_flight": 1}) as (gateway, one, other):
            async with gateway.client() as client:
                await client.send("POST", "/v1/embeddings", b'{"model":"m"}', {})
                await one.until(lambda: len(one.seen) == 1)
                full = await gateway.ask()
                assert (full.status, full.json()["error"]["code"]) == (503, "baseline_full")
            one.behaviour = says(b'{"b":1}')
            await gateway.follow(snapshot_of(one, other, version=2, epoch=2, baseline={"ready": False}))
            assert (await gateway.ask()).body == b'{"b":1}'
            nobody = snapshot_of(free_port(), other, version=3, epoch=3, baseline={"ready": False})
            await gateway.follow(nobody)
            absent = await gateway.ask(path="/v2/models/m/infer")
            assert (absent.status, absent.json()["reason"]) == (503, "baseline_unavailable")
            assert absent.headers["retry-after"] == "1"

    run(scenario())


@pytest.mark.parametrize(
    ("fault", "status", "code"), [(resets, 502, "upstream_failed"), (hangs, 504, "upstream_timeout")]
)
def test_when_both_arms_fail_the_client_is_told_not_to_try_again(fault: Behaviour, status: int, code: str) -> None:
    """After a failover an error of our own carries x-should-retry: false."""

    async def scenario() -> None:
        async with canary(fault, resets, weight=10_000, baseline={"first_byte_s": 0.2}) as (gateway, _, _):
            got = await gateway.ask()
            assert (got.status, got.json()["error"]["code"]) == (status, code)
            assert got.headers["x-should-retry"] == "false"

    run(scenario())


def test_the_clients_deadline_cuts_the_candidate_early() -> None:
    """A slow candidate is cut at half of the client's time: late, but no error, and the baseline still answers."""

    async def scenario() -> None:
        limits = {"lat_limits_ms": (None, 50.0, None)}
        async with canary(says(FROM_BASELINE), hangs, weight=10_000, **limits) as (gateway, one, _):
            got = await gateway.ask(headers={"x-canary-deadline-ms": "600"})
            assert (got.status, got.body) == (200, FROM_BASELINE)
            assert 0 < int(one.seen[0].headers["x-canary-deadline-ms"]) <= 300
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.DEADLINE) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED) == 0
            assert gateway.count(CANDIDATE, LIVE, Count.LAT95_N) == gateway.count(CANDIDATE, LIVE, Count.LAT95_BAD) == 1

    run(scenario())


def test_an_open_request_is_late_at_once() -> None:
    """A request that is still open when it passes a limit is counted before it ends, and only once."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.write(answer())

        async with canary(says(), slow, weight=10_000, lat_limits_ms=(None, 100.0, None)) as (gateway, _, _):
            async with gateway.client() as client:
                await client.send("POST", "/v1/embeddings", b'{"model":"m"}', {})
                await gateway.until(lambda: gateway.count(CANDIDATE, LIVE, Count.LAT95_BAD) == 1)
                assert gateway.reports[-1].open_since is not None
                assert gateway.count(CANDIDATE, LIVE, Count.OK) == 0
                release.set()
                assert (await client.answer()).status == 200
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.LAT95_N) == gateway.count(CANDIDATE, LIVE, Count.LAT95_BAD) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.OK) == 1

    run(scenario())


def test_an_answer_that_met_a_compile_leaves_the_latencies() -> None:
    """Compiles are counted, the answer excused, and the header stays inside."""

    async def scenario() -> None:
        compiles = says(FROM_CANDIDATE, headers="x-canary-compiles: 2\r\n")
        async with canary(says(), compiles, weight=10_000) as (gateway, _, _):
            got = await gateway.ask()
            assert "x-canary-compiles" not in got.headers
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.COMPILES) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.EXCUSED) == gateway.count(CANDIDATE, LIVE, Count.OK) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.LAT95_N) == 0

    run(scenario())


def test_a_worker_counts_in_the_windows_of_the_control_process() -> None:
    """However late it was started, its clock is the one it was given."""

    async def scenario() -> None:
        offset = 5_000_000_000.0 - time.monotonic()
        async with canary(says(), says(), setup={"wall_offset": offset}) as (gateway, _, _):
            await gateway.ask()
            await gateway.settled()
            assert gateway.count(BASELINE, LIVE, Count.OK) == 1
            assert {window.window for report in gateway.reports for window in report.windows} <= set(
                range(500_000_000, 500_000_010)
            )
            assert gateway.reports[-1].at >= 5_000_000_000.0

    run(scenario())


def test_pinned_requests_and_other_models_pass_to_the_baseline_uncounted() -> None:
    """Only the rollout's model is split; the rest is passed through."""

    async def scenario() -> None:
        async with canary(says(FROM_BASELINE), says(FROM_CANDIDATE), weight=10_000) as (gateway, one, other):
            for path, body in (("/v2/models/m", b""), ("/v1/embeddings", b'{"model":"other"}'), ("/tokenize", b"{}")):
                got = await gateway.ask(body, path=path, method="POST" if body else "GET")
                assert got.body == FROM_BASELINE
            assert (len(one.seen), len(other.seen)) == (3, 0)
            await gateway.settled()
            assert all(gateway.count(role, lane, *Count) == 0 for role in Role for lane in Lane)

    run(scenario())


def test_the_workers_own_breaker_takes_the_candidate_out() -> None:
    """Seconds of nothing but failures trip the breaker; it is reported at once and lasts until a new epoch."""

    async def scenario() -> None:
        async with canary(says(FROM_BASELINE), resets, weight=10_000) as (gateway, _, other):
            async with asyncio.timeout(30):
                while not any(report.tripped for report in gateway.reports):
                    assert (await gateway.ask()).status == 200
            written = len(other.seen)
            assert (await gateway.ask()).headers["x-canary-failover"] == "unavailable"
            await gateway.change(weight=9000)
            for _ in range(20):
                assert (await gateway.ask()).body == FROM_BASELINE
            assert len(other.seen) == written
            other.behaviour = says(FROM_CANDIDATE)
            await gateway.change(epoch=2, weight=10_000)
            assert (await gateway.ask()).body == FROM_CANDIDATE
            await gateway.settled()
            assert gateway.reports[-1].tripped is False

    run(scenario())
