"""What passes through the data plane and what does not: headers, bodies, connections, and their ends."""

import asyncio
import contextlib
import itertools
import json
import resource
from pathlib import Path

import pytest
from integration.gateway_data.harness import (
    Arm,
    Behaviour,
    Seen,
    answer,
    canary,
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
LIVE = Lane.LIVE
INFER = b'{"model":"m","input":"a sentence"}'


def test_headers_on_the_way_to_the_arm() -> None:
    """Hop-by-hop and forged gateway headers stay outside; the client's own pass; Host and epoch are the gateway's."""

    async def scenario() -> None:
        async with canary(says(), says()) as (gateway, one, _):
            forged = {
                "Connection": "keep-alive, X-Private",
                "X-Private": "1",
                "TE": "trailers",
                "Proxy-Authorization": "Basic x",
                "X-Canary-Epoch": "99",
                "X-Canary-Shadow": "1",
                "X-Canary-Arm": "mine",
                "X-Canary-Pin": "forged",
                "Authorization": "Bearer key",
                "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "X-Request-Id": "mine-1",
                "X-Canary-Deadline-Ms": "5000",
            }
            got = await gateway.ask(path="/v1/embeddings?a=%20b", headers=forged)
            assert got.headers["x-request-id"] == "mine-1"
            (seen,) = one.seen
            assert (seen.target, seen.body) == ("/v1/embeddings?a=%20b", INFER)
            assert 4000 < int(seen.headers.pop("x-canary-deadline-ms")) <= 5000
            assert seen.headers == {
                "host": f"127.0.0.1:{one.port}",
                "authorization": "Bearer key",
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "x-request-id": "mine-1",
                "x-canary-epoch": "1",
                "content-length": str(len(INFER)),
            }

    run(scenario())


@pytest.mark.parametrize("expose", [False, True])
def test_headers_on_the_way_to_the_client(expose: bool) -> None:
    """The server's own x-canary headers are for the gateway, unless the timings are exposed; forged ones never pass."""

    async def scenario() -> None:
        extra = "x-canary-queue-ms: 1.5\r\nx-canary-arm: forged\r\nconnection: x-hop\r\nx-hop: 1\r\nx-model: m\r\n"
        setup = {"expose_timings": expose}
        async with canary(says(b"{}", headers=extra), says(), setup=setup) as (gateway, _, _):
            got = await gateway.ask()
            request_id = got.headers.pop("x-request-id")
            assert len(request_id) == 32
            timings = {"x-canary-queue-ms": "1.5"} if expose else {}
            assert got.headers == {
                "content-type": "application/json",
                "content-length": "2",
                "x-model": "m",
                "x-canary-arm": "gpu",
                **timings,
            }

    run(scenario())


def test_a_base_path_is_put_before_the_path() -> None:
    """An arm may live below a path of its host."""

    async def scenario() -> None:
        async with canary(says(), says(), baseline={"base_path": "/v0/arm"}) as (gateway, one, _):
            await gateway.ask()
            assert one.seen[0].target == "/v0/arm/v1/embeddings"

    run(scenario())


@pytest.mark.parametrize(
    ("method", "raw", "status", "body"),
    [
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 200, b"{}"),
        (
            "GET",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + answer(b"[]"),
            200,
            b"[]",
        ),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", 304, b""),
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n", 200, b""),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
            200,
            b"abc",
        ),
    ],
    ids=["length", "interim", "204", "304", "head", "chunked"],
)
def test_every_kind_of_answer(method: str, raw: bytes, status: int, body: bytes) -> None:
    """However an arm frames its answer, the client gets its meaning, twice on one connection."""

    async def scenario() -> None:
        async with canary(writes(raw), says()) as (gateway, _, _), gateway.client() as client:
            for _ in range(2):
                await client.send(method, "/v2/models/m", b"", {})
                got = await client.answer(method)
                assert (got.status, got.body) == (status, body)
                if method == "HEAD":
                    assert got.headers["content-length"] == "1234"

    run(scenario())


def test_an_answer_that_ends_with_the_connection() -> None:
    """Without length and not chunked the end of the connection is the end of the answer, which is then whole."""

    async def scenario() -> None:
        async with canary(writes(b"HTTP/1.0 200 OK\r\n\r\nwhole", close=True), says()) as (gateway, one, _):
            for _ in range(2):
                assert (await gateway.ask()).body == b"whole"
            assert one.connections == 2

    run(scenario())


def test_bytes_after_an_answer_go_nowhere() -> None:
    """A second answer that nobody asked for is not taken for the next client's."""

    async def scenario() -> None:
        smuggled = answer(b'{"mine":1}') + answer(b'{"smuggled":1}')
        async with canary(writes(smuggled), says()) as (gateway, one, _):
            for _ in range(3):
                assert (await gateway.ask()).body == b'{"mine":1}'
            assert one.connections == 3

    run(scenario())


def test_connections_are_kept_and_closed_when_the_arm_says_so() -> None:
    """One connection serves request after request; Connection: close ends it."""

    async def scenario() -> None:
        async with canary(says(), says()) as (gateway, one, _):
            for _ in range(5):
                await gateway.ask()
            assert one.connections == 1
            one.behaviour = says(headers="connection: close\r\n")
            for _ in range(2):
                await gateway.ask()
            assert one.connections == 2

    run(scenario())


def test_a_kept_connection_that_the_arm_closes_is_no_error() -> None:
    """The request that meets a closing connection is sent once more on a fresh one, and books nothing bad."""

    async def scenario() -> None:
        async def once(seen: Seen, writer: asyncio.StreamWriter) -> None:
            if seen.connection == 1:
                writer.transport.abort()
                return
            writer.write(answer())

        async with canary(says(), says(), weight=10_000) as (gateway, _, other):
            await gateway.ask()
            other.behaviour = once
            assert (await gateway.ask()).headers["x-canary-arm"] == "tpu"
            assert [seen.connection for seen in other.seen] == [1, 1, 2]
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.OK) == 2
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED) == 0

    run(scenario())


def test_a_fresh_connection_that_dies_is_not_tried_again() -> None:
    """Without a kept connection to blame, a reset is the arm's failure at once."""

    async def scenario() -> None:
        async with canary(says(), resets, weight=10_000) as (gateway, _, other):
            await gateway.ask()
            assert len(other.seen) == 1

    run(scenario())


def test_a_client_that_leaves_cancels_the_arm() -> None:
    """The arm's connection is closed while it is still working, and the request counts nowhere."""

    async def scenario() -> None:
        async with canary(says(), hangs, weight=10_000, arms={"first_byte_s": 90.0, "total_s": 90.0}) as (
            gateway,
            one,
            other,
        ):
            async with gateway.client() as client:
                await client.send("POST", "/v1/embeddings", INFER, {})
                await other.until(lambda: len(other.seen) == 1)
            await other.until(lambda: other.lost == [1])
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.CANCELLED) == 1
            assert gateway.count(CANDIDATE, LIVE, *[c for c in Count if c is not Count.CANCELLED]) == 0
            assert one.seen == []

    run(scenario())


def test_a_client_that_leaves_after_a_limit_counts_as_late() -> None:
    """Giving up on a slow arm does not make its slowness disappear."""

    async def scenario() -> None:
        async with canary(says(), hangs, weight=10_000, lat_limits_ms=(None, 50.0, None)) as (gateway, _, other):
            async with gateway.client() as client:
                await client.send("POST", "/v1/embeddings", INFER, {})
                await other.until(lambda: len(other.seen) == 1)
                await gateway.until(lambda: gateway.count(CANDIDATE, LIVE, Count.LAT95_BAD) == 1)
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.CANCELLED) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.LAT95_N) == 1

    run(scenario())


def test_events_reach_the_client_one_by_one() -> None:
    """An event stream is not held back, and enters no latency metric."""

    async def scenario() -> None:
        more = asyncio.Event()

        async def events(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"9\r\ndata: 1\n\n\r\n")
            await more.wait()
            writer.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

        async with canary(says(), events, weight=10_000) as (gateway, _, _), gateway.client() as client:
            await client.send("POST", "/v1/embeddings", INFER, {})
            assert (await client.head())[0] == 200
            assert await client.chunk() == b"data: 1\n\n"
            more.set()
            assert await client.chunk() == b"data: 2\n\n"
            assert await client.chunk() == b""
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.OK) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.LAT95_N) == 0

    run(scenario())


def test_a_stream_may_take_longer_than_an_answer() -> None:
    """The time for all of an answer does not apply to what the client gets as it comes."""

    async def scenario() -> None:
        async def events(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(8):
                writer.write(b"9\r\ndata: 1\n\n\r\n")
                await asyncio.sleep(0.1)
            writer.write(b"0\r\n\r\n")

        async with canary(says(), events, weight=10_000, candidate={"total_s": 0.3}) as (gateway, _, _):
            assert (await gateway.ask()).body == b"data: 1\n\n" * 8
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.OK) == 1

    run(scenario())


def test_a_stream_that_breaks_is_broken_off_visibly() -> None:
    """After the first byte nothing is repeated: the client sees an answer that does not end, the arm is charged."""

    async def scenario() -> None:
        async def breaks(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500000\r\n\r\n" + b"x" * 1000)
            await writer.drain()
            writer.close()

        async with canary(says(), breaks, weight=10_000) as (gateway, one, _):
            with pytest.raises(asyncio.IncompleteReadError):
                await gateway.ask()
            await gateway.settled()
            assert (
                gateway.count(CANDIDATE, LIVE, Count.FAILED) == gateway.count(CANDIDATE, Lane.CLIENT, Count.FAILED) == 1
            )
            assert one.seen == []

    run(scenario())


def test_a_stream_is_timed_as_its_bytes_come_in() -> None:
    """First event, gaps and end of a stream, by a real worker: one late gap of two is more than 1 in 20."""

    async def scenario() -> None:
        async def events(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for pause_s in (0.3, 0.3, 0.05):
                await asyncio.sleep(pause_s)
                writer.write(b"9\r\ndata: 1\n\n\r\n")
            await asyncio.sleep(0.05)
            writer.write(b"0\r\n\r\n" if b'"n": 1}' in seen.body else b"zz\r\n")

        limits = {"stream_limits_ms": (200.0, 200.0)}
        async with canary(says(), events, weight=10_000, **limits) as (gateway, _, _):
            assert len((await gateway.ask({"model": "m", "stream": True, "n": 1})).body) == 27
            with pytest.raises(asyncio.IncompleteReadError):
                await gateway.ask({"model": "m", "stream": True, "n": 2})
            await gateway.settled()
            counts = (Count.TTFT_N, Count.TTFT_BAD, Count.ITL_N, Count.ITL_BAD, Count.STREAMS, Count.STREAMS_BROKEN)
            assert [gateway.count(CANDIDATE, LIVE, count) for count in counts] == [2, 2, 2, 2, 2, 1]
            assert gateway.count(CANDIDATE, LIVE, Count.LAT95_N) == 0

    run(scenario())


def test_a_client_that_reads_a_stream_slowly_charges_nobody() -> None:
    """The arm is always ready to go on, so every long gap is the client's."""

    async def scenario() -> None:
        size, events, done = 512 * 1024, 100, asyncio.Event()

        async def fast(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            event = b"data: " + b"x" * (size - 8) + b"\n\n"
            for _ in range(events):
                writer.write(b"%x\r\n%b\r\n" % (size, event))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            done.set()

        limits = {"stream_limits_ms": (5000.0, 15.0)}
        async with canary(says(), fast, weight=10_000, **limits) as (gateway, _, _), gateway.client() as client:
            await client.send("POST", "/v1/embeddings", b'{"model":"m","input":"a","stream":true}', {})
            assert (await client.head())[0] == 200
            waited = 0
            while await client.chunk():
                waited += not done.is_set()
                await asyncio.sleep(0.03)
            assert waited > events / 4, "the arm was never made to wait"
            await gateway.settled()
            counts = (Count.TTFT_BAD, Count.ITL_BAD, Count.STREAMS, Count.STREAMS_BROKEN)
            assert [gateway.count(CANDIDATE, LIVE, count) for count in counts] == [0, 0, 1, 0]

    run(scenario())


def test_a_slow_client_makes_the_arm_wait() -> None:
    """A large answer is not piled up in the gateway: the arm's writes stall until the client reads."""

    async def scenario() -> None:
        size = 64 * 1024 * 1024
        written = 0
        stalled = asyncio.Event()

        async def large(seen: Seen, writer: asyncio.StreamWriter) -> None:
            nonlocal written
            writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
            piece = b"x" * 65536
            while written < size:
                writer.write(piece)
                written += len(piece)
                try:
                    async with asyncio.timeout(1.0):
                        await writer.drain()
                except TimeoutError:
                    stalled.set()
                    await writer.drain()

        async with canary(large, says()) as (gateway, _, _), gateway.client() as client:
            await client.send("GET", "/large", b"", {})
            await asyncio.wait_for(stalled.wait(), 20)
            assert written < size / 2
            status, headers = await client.head()
            got = 0
            while got < size:
                got += len(await client.reader.read(1 << 20))
            assert (status, int(headers["content-length"]), got) == (200, size, size)

    run(scenario())


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_streams_through_to_one_arm(chunked: bool) -> None:
    """Beyond the replay buffer there is no failover and no copy, and the request is counted as not replayable."""

    async def scenario() -> None:
        body = b'{"model":"m","input":"' + b"x" * 300_000 + b'"}'
        setup = {"replay_buffer": 65536}
        copies = {"copies": 10_000, "reverse_copies": 10_000}
        async with canary(says(), says(b'{"c":1}'), setup=setup, weight=10_000, **copies) as (gateway, one, other):
            async with gateway.client() as client:
                if chunked:
                    pieces = [body[i : i + 50_000] for i in range(0, len(body), 50_000)]
                    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
                    client.writer.write(head + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n")
                else:
                    await client.send("POST", "/v1/embeddings", body, {})
                assert (await client.answer()).body == b'{"c":1}'
            assert other.seen[0].body == body
            other.behaviour = resets
            got = await gateway.ask(body)
            assert (got.status, got.json()["error"]["code"]) == (502, "upstream_failed")
            assert one.seen == []
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.NOT_REPLAYABLE) == 2
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED) == 1

    run(scenario())


def test_a_body_beyond_the_limit_is_refused() -> None:
    """Announced or not, more than max_body is 413 with the number that is allowed."""

    async def scenario() -> None:
        setup = {"max_body": 100_000, "replay_buffer": 10_000}
        async with canary(says(), says(), setup=setup) as (gateway, one, _):
            announced = await gateway.ask(b"x" * 100_001)
            assert announced.status == 413
            assert "at most 100000" in announced.json()["error"]["message"]
            assert one.seen == []
            async with gateway.client() as client:
                client.writer.write(b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
                for _ in range(3):
                    client.writer.write(b"c350\r\n" + b"x" * 50_000 + b"\r\n")
                    await client.writer.drain()
                got = await client.answer()
                assert (got.status, got.json()["error"]["code"]) == (413, "body_too_large")
            await one.until(lambda: len(one.lost) == 1)

    run(scenario())


def test_a_client_that_does_not_send_its_body_is_given_up() -> None:
    """Whether the body would be kept or is streaming to an arm already: 408, and the arm is not charged."""

    async def scenario() -> None:
        setup = {"client_read_s": 0.2, "replay_buffer": 10_000}
        async with canary(says(), says(), setup=setup, weight=10_000) as (gateway, _, other):
            for size in (100, 50_000):
                async with gateway.client() as client:
                    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n"
                    client.writer.write(head + b'{"model":"m","input":"' + b"x" * size)
                    got = await client.answer()
                    assert (got.status, got.headers["connection"]) == (408, "close")
                    assert await asyncio.wait_for(client.reader.read(), 20) == b""
            await other.until(lambda: len(other.lost) == 1)
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.CANCELLED) == 1
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED, Count.LAT95_N) == 0
            assert other.seen == []

    run(scenario())


def test_without_room_in_the_replay_buffers_a_request_is_served_but_not_replayed() -> None:
    """The buffers of all requests together are bounded."""

    async def scenario() -> None:
        async with canary(says(), says(b"{}", 500), setup={"replay_buffer_total": 10}, weight=10_000) as (
            gateway,
            _,
            _,
        ):
            assert (await gateway.ask()).status == 500
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.NOT_REPLAYABLE) == 1

    run(scenario())


def test_grpc_gets_a_clear_error() -> None:
    """gRPC is refused before an arm hears of it."""

    async def scenario() -> None:
        async with canary(says(), says()) as (gateway, one, _):
            got = await gateway.ask(headers={"content-type": "application/grpc"})
            assert (got.status, got.json()["error"]["code"]) == (415, "unsupported_media_type")
            assert one.seen == []

    run(scenario())


def test_an_upgrade_is_refused_and_its_body_is_no_request() -> None:
    """A body that comes in a segment of its own reaches no arm, as a request least of all."""

    async def scenario() -> None:
        async with canary(says(), says()) as (gateway, one, _), gateway.client() as client:
            smuggled = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
            ask = {"connection": "upgrade", "upgrade": "h2c", "content-length": str(len(smuggled))}
            await client.send("POST", "/v1/embeddings", b"", ask)
            got = await client.answer()
            assert (got.status, got.headers["connection"]) == (400, "close")
            assert got.json()["error"]["code"] == "bad_request"
            client.writer.write(smuggled)
            with contextlib.suppress(ConnectionError):  # what comes after the end may be answered with a reset
                assert await asyncio.wait_for(client.reader.read(), 20) == b""
            assert (await gateway.ask()).status == 200
            assert [seen.method for seen in one.seen] == ["POST"]

    run(scenario())


def test_a_head_without_end_is_refused() -> None:
    """It is not kept in memory while it grows."""

    async def scenario() -> None:
        async with worker() as gateway, gateway.client() as client:
            client.writer.write(b"GET / HTTP/1.1\r\nx: " + b"x" * 70_000)
            assert (await client.head())[0] == 431

    run(scenario())


def lowest_free_descriptor(pid: int) -> int:
    taken = {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}
    return next(number for number in itertools.count() if number not in taken)


def test_a_shortage_of_the_gateways_own_is_not_the_candidates() -> None:
    """Without a file descriptor for the candidate the baseline answers, and the candidate is not charged."""

    async def scenario() -> None:
        async with canary(says(), says()) as (gateway, one, other), gateway.client() as client:
            await client.send("POST", "/v1/embeddings", INFER, {})
            assert (await client.answer()).headers["x-canary-arm"] == "gpu"
            await gateway.change(weight=10_000)
            pid = gateway.process.pid
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free_descriptor(pid), hard))
            await client.send("POST", "/v1/embeddings", INFER, {})
            got = await client.answer()
            assert (got.status, got.headers["x-canary-arm"]) == (200, "gpu")
            assert (len(one.seen), other.connections) == (2, 0)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            await client.send("POST", "/v1/embeddings", INFER, {})
            assert (await client.answer()).headers["x-canary-arm"] == "tpu"
            await gateway.settled()
            assert gateway.count(CANDIDATE, LIVE, Count.FAILED, Count.UNAVAILABLE, Count.CANCELLED) == 0
            assert gateway.count(CANDIDATE, LIVE, Count.OK) == 1

    run(scenario())


def test_http2_gets_a_clear_error() -> None:
    """A client that opens with the HTTP/2 preface is answered in HTTP/1.1 and hung up on."""

    async def scenario() -> None:
        async with worker() as gateway, gateway.client() as client:
            client.writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert (await client.head())[0] == 400
            await asyncio.wait_for(client.reader.read(), 20)

    run(scenario())


def test_health_is_the_gateways_own() -> None:
    """Live from the start; ready once the baseline was ready, and still when it is not any more."""

    async def scenario() -> None:
        async with Arm(says()) as one, worker() as gateway:

            async def health(name: str) -> tuple[int, object]:
                got = await gateway.ask(path=f"/v2/health/{name}", method="GET")
                return got.status, got.json()

            assert await health("live") == (200, {"live": True})
            assert await health("ready") == (503, {"ready": False})
            no_route = await gateway.ask()
            assert (no_route.status, no_route.json()["error"]["code"]) == (503, "baseline_unavailable")
            await gateway.follow(snapshot_of(one, None, baseline={"ready": False}))
            assert (await health("ready"))[0] == 503
            await gateway.follow(snapshot_of(one, None, version=2))
            assert await health("ready") == (200, {"ready": True})
            await gateway.follow(snapshot_of(one, None, version=3, baseline={"ready": False}))
            assert (await health("ready"))[0] == 200
            assert (await gateway.ask(path="/v2/health/ready", method="POST")).status == 405
            assert one.seen == []

    run(scenario())


@pytest.mark.parametrize("behaviour", [says(), hangs])
def test_drain_finishes_what_runs(behaviour: Behaviour) -> None:
    """Not ready at once, still accepting for a while, then listeners closed, requests finished, exit 0."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            if behaviour is not hangs:
                await release.wait()
                writer.write(answer())

        async with canary(slow, says()) as (gateway, one, _):
            asking = asyncio.create_task(gateway.ask())
            await one.until(lambda: len(one.seen) == 1)
            gateway.drain(delay_s=0.3, limit_s=1.0)
            got = await gateway.ask(path="/v2/health/ready", method="GET")
            assert (got.status, got.headers.get("connection")) == (503, None)
            if behaviour is not hangs:
                late = asyncio.create_task(gateway.ask())
                await one.until(lambda: len(one.seen) == 2)
                release.set()
                for answered in (await asking, await late):
                    assert (answered.status, answered.headers["connection"]) == (200, "close")
            assert await asyncio.wait_for(gateway.process.wait(), 20) == 0
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", gateway.port)
            if behaviour is hangs:
                cut = await asking
                assert (cut.status, cut.json()["error"]["code"]) == (503, "draining")
            else:
                assert gateway.count(BASELINE, LIVE, Count.OK) == 2

    run(scenario())


def test_a_worker_goes_with_the_control_process() -> None:
    """When the channel is lost the worker ends at once, whatever is in flight."""

    async def scenario() -> None:
        async with canary(hangs, says()) as (gateway, one, _), gateway.client() as client:
            await client.send("POST", "/v1/embeddings", INFER, {})
            await one.until(lambda: len(one.seen) == 1)
            gateway.channel.close()
            assert await asyncio.wait_for(gateway.process.wait(), 20) == 1

    run(scenario())


def test_signals_for_the_service_are_the_control_processs() -> None:
    """A worker ignores SIGINT and SIGTERM and goes on serving."""

    async def scenario() -> None:
        async with canary(says(), says()) as (gateway, _, _):
            gateway.process.terminate()
            gateway.process.send_signal(2)
            assert (await gateway.ask()).status == 200
            assert gateway.process.returncode is None

    run(scenario())


def test_workers_share_a_port() -> None:
    """Two workers listen on the same port, and both take connections."""

    async def scenario() -> None:
        async with Arm(says()) as one, worker() as first, worker(port=first.port, name="w2") as second:
            for gateway in (first, second):
                await gateway.follow(snapshot_of(one, None))
            assert first.port == second.port
            for _ in range(40):
                assert (await first.ask()).status == 200
            await first.settled()
            await second.settled()
            counts = [gateway.count(BASELINE, LIVE, Count.OK) for gateway in (first, second)]
            assert sum(counts) == 40
            assert min(counts) > 0

    run(scenario())


def test_an_arm_that_moves_gets_the_next_request_at_its_new_place() -> None:
    """A snapshot with another address takes effect at once; what runs at the old place is finished there."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.write(answer(b'{"old":1}'))

        async with canary(slow, says()) as (gateway, one, other), Arm(says(b'{"new":1}')) as moved:
            asking = asyncio.create_task(gateway.ask())
            await one.until(lambda: len(one.seen) == 1)
            await gateway.follow(snapshot_of(moved, other, version=2))
            assert (await gateway.ask()).body == b'{"new":1}'
            release.set()
            assert (await asking).body == b'{"old":1}'

    run(scenario())


def test_many_clients_at_once() -> None:
    """A crowd of clients on few connections is served completely and in the right order for each."""

    async def scenario() -> None:
        async def echo(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(seen.body))

        few = {"arms": {"max_connections": 4, "max_in_flight": 1000}}
        async with canary(echo, echo, weight=5000, **few) as (gateway, one, other):

            async def ask_for(i: int) -> None:
                async with gateway.client() as client:
                    for k in range(20):
                        body = json.dumps({"model": "m", "input": f"{i}/{k}"}).encode()
                        await client.send("POST", "/v1/embeddings", body, {})
                        assert (await client.answer()).body == body

            await asyncio.gather(*(ask_for(i) for i in range(50)))
            await gateway.settled()
            assert gateway.count(BASELINE, LIVE, Count.OK) + gateway.count(CANDIDATE, LIVE, Count.OK) == 1000
            assert max(one.connections, other.connections) <= 4

    run(scenario())
