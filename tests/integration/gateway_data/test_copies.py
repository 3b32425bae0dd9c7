"""The shadow lane: who gets copies, what becomes of them, and which answers make a pair."""

import asyncio

import pytest
from integration.gateway_data.harness import Behaviour, Seen, answer, canary, hangs, resets, run, says

from gateway.core.types import Count, Lane, Role

BASELINE, CANDIDATE = Role.BASELINE, Role.CANDIDATE
LIVE, COPY = Lane.LIVE, Lane.COPY
ALL = {"copies": 10_000, "reverse_copies": 10_000}


def test_copies_go_both_ways_and_make_pairs() -> None:
    """Each request reaches the arm that did not answer as a marked copy, and both answers are handed on whole."""

    async def scenario() -> None:
        async with canary(says(b'{"b":1}'), says(b'{"c":1}'), weight=5000, **ALL) as (gateway, one, other):
            for i in range(30):
                await gateway.ask({"model": "m", "input": str(i)}, headers={"x-request-id": f"r{i}"})
            await gateway.until(lambda: len(gateway.pairs) == 30)
            assert {pair.served for pair in gateway.pairs} == set(Role)
            assert len({pair.body_hash for pair in gateway.pairs}) == 30
            for pair in gateway.pairs:
                assert (pair.baseline.body, pair.candidate.body) == (b'{"b":1}', b'{"c":1}')
                assert (pair.epoch, pair.path, pair.baseline.content_type) == (1, "/v1/embeddings", "application/json")
                served, copied = (one, other) if pair.served is BASELINE else (other, one)
                assert "x-canary-shadow" not in _by_id(served.seen, pair.request_id).headers
                assert _by_id(copied.seen, pair.request_id).headers["x-canary-shadow"] == "1"
            await gateway.settled()
            live = gateway.count(BASELINE, LIVE, Count.OK)
            assert gateway.count(CANDIDATE, COPY, Count.OK) == gateway.count(CANDIDATE, COPY, Count.LAT95_N) == live
            assert gateway.count(BASELINE, COPY, *Count) == 0
            assert gateway.copies("candidate:pair") + gateway.copies("baseline:pair") == 30

    run(scenario())


def _by_id(seen: list[Seen], request_id: str) -> Seen:
    return next(s for s in seen if s.headers["x-request-id"] == request_id)


def test_a_copy_never_delays_what_it_copies() -> None:
    """A candidate that hangs costs the client nothing; its copy ends as a failure of the candidate."""

    async def scenario() -> None:
        short = {"candidate": {"first_byte_s": 0.3}}
        async with canary(says(), hangs, **ALL, **short) as (gateway, _, other):
            assert (await gateway.ask()).status == 200
            assert gateway.count(CANDIDATE, COPY, Count.FAILED) == 0
            await other.until(lambda: len(other.seen) == 1)
            await gateway.until(lambda: gateway.count(CANDIDATE, COPY, Count.FAILED) == 1)
            assert gateway.pairs == []

    run(scenario())


@pytest.mark.parametrize(
    ("candidate", "count", "pairs"),
    [
        (says(b"{}", 500), Count.FAILED, 0),
        (resets, Count.FAILED, 0),
        (says(b"{}", 503), Count.SHED, 0),
        (says(b"{}", 429), Count.SHED, 0),
        (says(b"{}", 400), Count.REFUSED, 1),
        (says(b"{}"), Count.OK, 1),
        (says(b"x" * 300_000), Count.OK, 0),
        (says(b"{}", headers="content-encoding: gzip\r\n"), Count.OK, 0),
    ],
    ids=["500", "reset", "503", "429", "400", "200", "too-large", "compressed"],
)
def test_the_fate_of_a_copy_on_the_candidate(candidate: Behaviour, count: Count, pairs: int) -> None:
    """Overload sheds a copy, failure fails it; a refusal of what the baseline took is booked and is a pair."""

    async def scenario() -> None:
        async with canary(says(b'{"b":1}'), candidate, **ALL) as (gateway, _, _):
            assert (await gateway.ask()).body == b'{"b":1}'
            await gateway.until(lambda: gateway.count(CANDIDATE, COPY, count) == 1)
            assert gateway.count(CANDIDATE, COPY, Count.OK, Count.FAILED, Count.SHED, Count.REFUSED) == 1
            assert len(gateway.pairs) == pairs

    run(scenario())


def test_a_refused_live_answer_and_its_copy_are_a_status_pair() -> None:
    """The candidate's 4xx to the client's request is compared with the baseline's answer to the copy."""

    async def scenario() -> None:
        async with canary(says(b'{"b":1}'), says(b"{}", 422), weight=10_000, **ALL) as (gateway, _, _):
            assert (await gateway.ask()).status == 200
            await gateway.until(lambda: len(gateway.pairs) == 1)
            (pair,) = gateway.pairs
            assert (pair.baseline.status, pair.candidate.status, pair.served) == (200, 422, BASELINE)

    run(scenario())


def test_a_copy_that_an_unready_candidate_cannot_get_is_unavailable() -> None:
    """A sampled copy is evidence even when it is not sent, once the candidate was ready in the epoch."""

    async def scenario() -> None:
        async with canary(says(), says(), **ALL, candidate={"ready": False}) as (gateway, _, other):
            await gateway.ask()
            await gateway.settled()
            assert gateway.count(CANDIDATE, COPY, Count.UNAVAILABLE) == 1
            await gateway.change(candidate_was_ready=False)
            await gateway.ask()
            await gateway.settled()
            assert gateway.count(CANDIDATE, COPY, Count.UNAVAILABLE) == 1
            assert other.seen == []

    run(scenario())


def test_a_saturated_candidate_gets_no_copy_and_no_blame() -> None:
    """Copies are shed before anything else, which says nothing about the candidate."""

    async def scenario() -> None:
        async with canary(says(), hangs, **ALL, candidate={"max_in_flight": 2}) as (gateway, _, other):
            for _ in range(5):
                await gateway.ask()
            await other.until(lambda: len(other.seen) == 2)
            await gateway.until(lambda: gateway.copies("candidate:saturated") == 3)
            assert gateway.count(CANDIDATE, COPY, *Count) == 0

    run(scenario())


def test_copies_to_the_baseline_stop_when_it_is_half_busy() -> None:
    """Its spare half belongs to clients."""

    async def scenario() -> None:
        async with canary(hangs, says(), weight=10_000, **ALL, baseline={"max_in_flight": 4}) as (gateway, one, _):
            for _ in range(6):
                assert (await gateway.ask()).status == 200
            await one.until(lambda: len(one.seen) == 2)
            await gateway.until(lambda: gateway.copies("baseline:busy") == 4)

    run(scenario())


def test_nothing_is_copied_while_nothing_is_judged() -> None:
    """In idle the candidate hears nothing, whatever the shares say."""

    async def scenario() -> None:
        async with canary(says(), says(), weight=10_000, **ALL, judging=False) as (gateway, one, other):
            assert (await gateway.ask()).headers["x-canary-arm"] == "gpu"
            await gateway.settled()
            assert (len(one.seen), len(other.seen)) == (1, 0)
            assert gateway.count(BASELINE, LIVE, Count.OK) == 1

    run(scenario())


def test_a_pair_waits_for_the_slower_side() -> None:
    """The copy's answer is kept until the client's is there; the client's window stays open for it."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.write(answer(b'{"slow":1}'))

        for arms, weight in (((slow, says()), 0), ((says(), slow), 0), ((slow, says()), 10_000)):
            release.clear()
            async with canary(*arms, weight=weight, **ALL) as (gateway, one, other):
                asking = asyncio.create_task(gateway.ask())
                await one.until(lambda one=one: len(one.seen) == 1)
                await other.until(lambda other=other: len(other.seen) == 1)
                before = len(gateway.reports)
                await gateway.until(lambda before=before: len(gateway.reports) >= before + 2)  # type: ignore[misc]  # bound early
                assert gateway.reports[-1].open_since is not None
                release.set()
                await asking
                await gateway.until(lambda: len(gateway.pairs) == 1)

    run(scenario())
