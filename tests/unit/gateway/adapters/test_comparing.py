"""The thread beside the control loop: bounded, and never without an answer."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from fakes.control import PLAN

from gateway.adapters.comparing import Comparing, Found
from gateway.core.compare.result import NotCompared, PairKind, PairResult
from gateway.core.plan import Plan
from gateway.core.snapshot import Answer, Pair
from gateway.core.types import Role

OK = PairResult(kind=PairKind.OK)


def pair(size: int = 10) -> Pair:
    answer = Answer(status=200, content_type="application/json", body=b"x" * size)
    return Pair(
        epoch=1, window=1, request_id="id", path="/v1/embeddings", served=Role.BASELINE, body_hash=b"h",
        baseline=answer, candidate=answer,
    )  # fmt: skip


async def all_found(comparing: Comparing, pairs: list[Pair]) -> tuple[list[bool], list[Found]]:
    """Whether each was taken, and what came of those that were."""
    found: list[Found] = []
    done = asyncio.Event()

    def take(each: Found) -> None:
        found.append(each)
        if len(found) == sum(taken):
            done.set()

    taken = [comparing.offer(each, PLAN, take) for each in pairs]
    await done.wait()
    return taken, found


def test_the_loop_goes_on_while_a_pair_is_compared() -> None:
    """The comparison waits for something that only the loop can do."""

    async def scenario() -> None:
        go, threads = threading.Event(), []

        def compare(pair: Pair, plan: Plan) -> Found:
            threads.append(threading.current_thread())
            assert go.wait(30)
            return OK

        comparing = Comparing(compare)
        asyncio.get_running_loop().call_soon(go.set)
        assert await all_found(comparing, [pair(), pair()]) == ([True, True], [OK, OK])
        assert len(set(threads)) == 1
        assert threading.current_thread() not in threads
        comparing.close()

    asyncio.run(scenario())


def test_what_waits_is_bounded_in_pairs_and_bytes_and_room_comes_back() -> None:
    """Refused at once, never dropped behind somebody's back."""

    async def scenario(bounds: dict[str, int]) -> None:
        go = threading.Event()

        def compare(pair: Pair, plan: Plan) -> Found:
            assert go.wait(30)
            return OK

        comparing = Comparing(compare, **bounds)
        asyncio.get_running_loop().call_soon(go.set)
        assert await all_found(comparing, [pair()] * 3) == ([True, True, False], [OK, OK])
        assert await all_found(comparing, [pair()]) == ([True], [OK])
        comparing.close()

    for bounds in ({"most_pairs": 2}, {"most_bytes": 59}):
        asyncio.run(scenario(bounds))


def test_a_pair_larger_than_all_that_may_wait_is_taken_alone() -> None:
    """``limits.answer_hold`` allows answers of which no two fit; they are compared one after the other."""

    async def scenario() -> None:
        go = threading.Event()

        def compare(pair: Pair, plan: Plan) -> Found:
            assert go.wait(30)
            return OK

        comparing = Comparing(compare, most_bytes=15)
        asyncio.get_running_loop().call_soon(go.set)
        assert await all_found(comparing, [pair(), pair(1)]) == ([True, False], [OK])
        assert await all_found(comparing, [pair(1), pair()]) == ([True, False], [OK])
        assert await all_found(comparing, [pair()]) == ([True], [OK])
        comparing.close()

    asyncio.run(scenario())


def test_a_comparison_that_raises_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever waits for it hears of it: a window would stay open otherwise. The log quotes nothing of an answer."""

    async def scenario() -> None:
        def compare(pair: Pair, plan: Plan) -> Found:
            raise RuntimeError("secret")

        comparing = Comparing(compare)
        assert await all_found(comparing, [pair()]) == ([True], [NotCompared.FAILED])
        comparing.close()

    asyncio.run(scenario())
    (record,) = caplog.records
    assert vars(record)["fields"]["error"] == "RuntimeError"
    assert vars(record)["fields"]["at"].startswith("compare:")
    assert "secret" not in caplog.text
    assert record.exc_info is None


def test_closing_waits_for_the_one_under_way_and_drops_the_rest() -> None:
    """A queue of large pairs does not hold up the end of the process, and nothing is called after it."""

    async def scenario() -> None:
        began, go, found = threading.Event(), threading.Event(), []

        def compare(pair: Pair, plan: Plan) -> Found:
            began.set()
            assert go.wait(30)
            return OK

        comparing = Comparing(compare)
        take: Callable[[Found], None] = found.append
        for _ in range(3):
            assert comparing.offer(pair(), PLAN, take)
        await asyncio.to_thread(began.wait, 30)
        go.set()
        comparing.close()
        await asyncio.sleep(0)
        assert found in ([], [OK])

    asyncio.run(scenario())
