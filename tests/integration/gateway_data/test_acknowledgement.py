"""After a worker has acknowledged a new epoch or weight 0 it writes nothing older to the candidate."""

import asyncio
import json
from pathlib import Path

import pytest
from integration.gateway_data.harness import (
    Arm,
    Seen,
    answer,
    canary,
    hangs,
    resets,
    run,
    says,
    snapshot_of,
    worker,
)

from gateway.core.types import Count, Lane, Role

BASELINE, CANDIDATE = Role.BASELINE, Role.CANDIDATE


def _lines(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_what_waits_for_a_connection_goes_back_to_the_baseline(tmp_path: Path) -> None:
    """Requests of the old epoch in the candidate's queue are answered by the baseline and never written."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.write(answer(b'{"c":1}'))

        one_connection = {"candidate": {"max_connections": 1}}
        log = tmp_path / "access.jsonl"
        async with canary(says(b'{"b":1}'), slow, log=log, weight=10_000, **one_connection) as (gateway, _, other):
            asking = [asyncio.create_task(gateway.ask()) for _ in range(8)]
            await other.until(lambda: len(other.seen) == 1)
            await gateway.until(lambda: gateway.reports[-1].in_flight == (0, 8))
            await gateway.change(weight=0, epoch=2)
            assert gateway.acks[-1].written == 1
            release.set()
            got = [(await task).body for task in asking]
            assert sorted(got) == [b'{"b":1}'] * 7 + [b'{"c":1}']
            assert len(other.seen) == 1
            await gateway.settled()
            assert gateway.count(CANDIDATE, Lane.LIVE, Count.OK, epoch=1) == 1
            assert gateway.count(CANDIDATE, Lane.LIVE, Count.OK, Count.FAILED, Count.CANCELLED, Count.UNAVAILABLE) == 1
            assert gateway.count(BASELINE, Lane.LIVE, *Count) == 0
        lines = _lines(log)
        ack = next(i for i, line in enumerate(lines) if line.get("ack") == 2)
        assert [line["arm"] for line in lines[:ack] if "arm" in line] == ["tpu"]
        assert {line["arm"] for line in lines[ack:] if "arm" in line} == {"gpu"}

    run(scenario())


@pytest.mark.parametrize("change", [{"epoch": 2}, {"weight": 0, "copies": 0, "reverse_copies": 0}, {"judging": False}])
def test_under_load_nothing_is_written_after_the_acknowledgement(tmp_path: Path, change: dict[str, object]) -> None:
    """Many clients, live requests and copies: whatever is written after the ack is of the new routing."""

    async def scenario() -> None:
        log = tmp_path / "access.jsonl"
        stop = asyncio.Event()
        few = {"candidate": {"max_connections": 2}}
        copies = {"copies": 10_000, "reverse_copies": 10_000}

        async def brief(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0)
            writer.write(answer())

        async with canary(says(), brief, log=log, weight=5000, **copies, **few) as (gateway, _, other):

            async def load() -> None:
                async with gateway.client() as client:
                    while not stop.is_set():
                        await client.send("POST", "/v1/embeddings", b'{"model":"m"}', {})
                        assert (await client.answer()).status == 200

            clients = [asyncio.create_task(load()) for _ in range(12)]
            await other.until(lambda: len(other.seen) >= 100)
            await gateway.change(**change)
            written_by_ack = gateway.acks[-1].written
            seen_reports = len(gateway.reports)
            await gateway.until(lambda: len(gateway.reports) >= seen_reports + 4)
            stop.set()
            await asyncio.gather(*clients)
            await gateway.settled()
            old = [seen for seen in other.seen if seen.headers["x-canary-epoch"] == "1"]
        lines = _lines(log)
        ack = next(i for i, line in enumerate(lines) if line.get("ack") == 2)
        before = {line["request_id"] for line in lines[:ack] if line.get("arm") == "tpu"}
        after = [line for line in lines[ack:] if line.get("arm") == "tpu"]
        assert sum(line.get("arm") == "tpu" for line in lines[:ack]) == written_by_ack
        assert [line for line in after if line["epoch"] == 1] == []
        assert {seen.headers["x-request-id"] for seen in old} <= before
        if "epoch" not in change:
            assert after == []

    run(scenario())


def test_a_streamed_body_that_waits_for_a_connection_goes_back_to_the_baseline() -> None:
    """Its feeder gives way until the request has moved on; the worker goes on serving."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.write(answer(b'{"c":1}'))

        one_connection = {"candidate": {"max_connections": 1}}
        small = {"replay_buffer": 1024}
        body = b'{"model":"m","input":"' + b"x" * 100_000 + b'"}'
        async with canary(says(b'{"b":1}'), slow, setup=small, weight=10_000, **one_connection) as (
            gateway,
            one,
            other,
        ):
            asking = asyncio.create_task(gateway.ask())
            await other.until(lambda: len(other.seen) == 1)
            waiting = asyncio.create_task(gateway.ask(body))
            await gateway.until(lambda: gateway.reports[-1].in_flight == (0, 2))
            await gateway.change(weight=0, epoch=2)
            assert (await waiting).body == b'{"b":1}'
            assert one.seen[0].body == body
            release.set()
            assert (await asking).body == b'{"c":1}'
            assert len(other.seen) == 1

    run(scenario())


def test_after_roles_are_swapped_back_the_old_arm_gets_nothing(tmp_path: Path) -> None:
    """A rollback after a finish: what waited for the arm just rolled back is answered by the other one."""

    async def scenario() -> None:
        log = tmp_path / "access.jsonl"
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.write(answer(b'{"tpu":1}'))

        async with Arm(says(b'{"gpu":1}')) as gpu, Arm(slow) as tpu, worker(log) as gateway:
            await gateway.follow(
                snapshot_of(tpu, gpu, baseline={"name": "tpu", "max_connections": 1}, candidate={"name": "gpu"})
            )
            asking = [asyncio.create_task(gateway.ask()) for _ in range(8)]
            await tpu.until(lambda: len(tpu.seen) == 1)
            await gateway.until(lambda: gateway.reports[-1].in_flight == (8, 0))
            await gateway.follow(snapshot_of(gpu, tpu, version=2, epoch=2))
            release.set()
            got = [await task for task in asking]
            assert sorted(g.body for g in got) == [b'{"gpu":1}'] * 7 + [b'{"tpu":1}']
            assert {(g.body, g.headers["x-canary-arm"]) for g in got} == {(b'{"gpu":1}', "gpu"), (b'{"tpu":1}', "tpu")}
            assert len(tpu.seen) == 1
            await gateway.settled()
        lines = _lines(log)
        ack = next(i for i, line in enumerate(lines) if line.get("ack") == 2)
        assert [line["arm"] for line in lines[:ack] if "arm" in line] == ["tpu"]
        assert [line["arm"] for line in lines[ack:] if "arm" in line] == ["gpu"] * 7

    run(scenario())


def test_a_worker_that_cannot_follow_a_snapshot_does_not_go_on() -> None:
    """It acknowledges nothing and ends, so that a fresh one follows."""

    async def scenario() -> None:
        async with canary(says(), says()) as (gateway, one, other):
            gateway.channel.send(snapshot_of(one, other, version=2, baseline={"profile": "unheard-of"}))
            assert await asyncio.wait_for(gateway.process.wait(), 20) == 1
            assert [ack.version for ack in gateway.acks] == [1]

    run(scenario())


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no device that is always full")
def test_a_full_disk_keeps_no_worker_from_following() -> None:
    """The log is lost, the acknowledgement and the answers are not."""

    async def scenario() -> None:
        async with canary(says(), says(), log=Path("/dev/full")) as (gateway, _, _):
            for version in (2, 3):
                assert (await gateway.ask()).status == 200
                await gateway.change(epoch=version)
            await gateway.settled()

    run(scenario())


def test_old_counts_come_in_reports_of_their_own() -> None:
    """A request that outlives its epoch is counted in the old one, and keeps nothing of the new one open."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.write(answer())

        async with canary(says(), slow, weight=10_000) as (gateway, _, other):
            asking = asyncio.create_task(gateway.ask())
            await other.until(lambda: len(other.seen) == 1)
            await gateway.change(epoch=2, weight=0)
            await gateway.until(lambda: any(r.epoch == 2 and r.open_since is None for r in gateway.reports))
            assert any(r.epoch == 1 and r.open_since is not None for r in gateway.reports)
            release.set()
            assert (await asking).headers["x-canary-arm"] == "tpu"
            await gateway.until(lambda: gateway.count(CANDIDATE, Lane.LIVE, Count.OK, epoch=1) == 1)
            assert gateway.count(CANDIDATE, Lane.LIVE, Count.OK, epoch=2) == 0
            last = [r for r in gateway.reports if r.epoch == 1][-1]
            assert last.open_since is None

    run(scenario())


def test_a_retry_on_a_fresh_connection_asks_again(tmp_path: Path) -> None:
    """A request whose kept connection dies after the epoch has changed is not written a second time."""

    async def scenario() -> None:
        log = tmp_path / "access.jsonl"
        async with canary(says(b'{"b":1}'), says(b'{"c":1}'), log=log, weight=10_000) as (gateway, _, other):
            assert (await gateway.ask()).body == b'{"c":1}'
            other.behaviour = hangs
            asking = asyncio.create_task(gateway.ask())
            await other.until(lambda: len(other.seen) == 2)
            await gateway.change(epoch=2, weight=0)
            other.behaviour = resets
            other.drop_connections()
            assert (await asking).body == b'{"b":1}'
            assert len(other.seen) == 2
        assert sum(line.get("arm") == "tpu" for line in _lines(log)) == 2

    run(scenario())
