"""What is recorded, in which rows, and what happens when the store is away or too slow."""

import asyncio
from dataclasses import replace

from fakes.control import PLAN
from fakes.gateway import FakeStore

from gateway.core.evidence import ClosedWindow
from gateway.core.keys import MOST_KEYS, KeyCounts
from gateway.core.plan import RuleParameters
from gateway.core.snapshot import LatencyCounts, Report
from gateway.core.tape import Began, Closed, Kept, Second, Stepped, unpack
from gateway.core.types import Count, Lane, Role, empty_tally
from gateway.ports import EvidenceRow
from gateway.runtime import tape as module
from gateway.runtime.tape import MOST_TOLD, MOST_WAITING, Tape

TERMS = {"weight_bp": 1000, "window": 5}


def window(number: int, ok: int = 1, keys: dict[Role, KeyCounts] | None = None) -> ClosedWindow:
    tally = empty_tally()
    tally[Count.OK] = ok
    return ClosedWindow(number, {(Role.BASELINE, Lane.LIVE): tally}, keys=keys or {})


def report(bins: list[tuple[int, int]], role: Role = Role.BASELINE) -> Report:
    return Report(
        name="w0", version=1, epoch=1, at=1.0, windows=[], open_since=None, breaker=(0.0, 0.0), seconds=[],
        latencies=[LatencyCounts(role=role, lane=Lane.LIVE, bins=bins)], tripped=False, recent_failovers=0,
        in_flight=(0, 0), connections=(0, 0),
    )  # fmt: skip


def judging() -> Tape:
    tape = Tape()
    tape.judging("r", replace(PLAN, rule=RuleParameters(), max_step_s=600), now=50.0, first_window=5, resumed=None)
    tape.stepped(50.0, TERMS)
    return tape


def written(tape: Tape, store: FakeStore) -> list[EvidenceRow]:
    asyncio.run(tape.write(store))
    return store.rows


def test_a_row_ends_with_its_window_and_the_open_one_is_written_again() -> None:
    """One row a window; what came since the last window is in the store with the next write, too."""
    tape, store = judging(), FakeStore()
    tape.second(51.0, (5, 0), (1, 0), False)
    tape.closed(60.0, window(5), ("4x128",))
    tape.second(61.0, (6, 0), (0, 0), True)
    tape.kept({"a": 1})
    rows = written(tape, store)
    assert [(row.run_id, row.position, row.window) for row in rows] == [("r", 0, 5), ("r", 1, 5)]
    assert [type(each) for each in unpack(rows[0].data)] == [Began, Stepped, Second, Closed]
    assert [type(each) for each in unpack(rows[1].data)] == [Second, Kept]
    tape.closed(70.0, window(6))
    rows = written(tape, store)
    assert [(row.position, row.window, row.at) for row in rows] == [(0, 5, 60.0), (1, 6, 70.0)]
    assert [type(each) for each in unpack(rows[1].data)] == [Second, Kept, Closed]
    assert written(tape, store) == rows


def test_latencies_of_the_baseline_go_with_the_window_that_is_closed_next() -> None:
    """Those of its live requests; a histogram starts over with each window."""
    tape, store = judging(), FakeStore()
    tape.answered(report([(7, 2)]))
    tape.answered(report([(3, 1), (7, 1)]))
    tape.answered(report([(9, 9)], role=Role.CANDIDATE))
    for number in (5, 6):
        tape.closed(60.0, window(number))
    first, second = (unpack(row.data)[-1] for row in written(tape, store))
    assert isinstance(first, Closed)
    assert isinstance(second, Closed)
    assert (first.latencies, second.latencies) == (((3, 1), (7, 3)), ())


def test_without_a_judge_only_windows_with_traffic_are_kept() -> None:
    """A gateway that nobody uses writes nothing."""
    tape, store = Tape(), FakeStore()
    tape.idle(now=50.0, width_s=10.0)
    tape.closed(60.0, ClosedWindow(5, {}))
    tape.closed(70.0, window(6))
    rows = written(tape, store)
    assert [(row.run_id, row.window) for row in rows] == [("", 6)]


def test_the_store_is_asked_again_and_gets_every_row_once() -> None:
    """Away for a while: nothing is lost, nothing raises, order stays."""
    tape, store = judging(), FakeStore(down=True)
    for number in range(5, 200):
        tape.closed(number * 10.0, window(number))
    assert written(tape, store) == []
    store.down = False
    rows = written(tape, store)
    assert [row.position for row in rows] == list(range(195))
    assert tape.left_out == 0


def test_what_does_not_fit_is_left_out_and_shows() -> None:
    """The queue is bounded; the numbers of the rows say where something is missing."""
    tape, store = judging(), FakeStore(down=True)
    for number in range(5, 5 + MOST_WAITING + 3):
        tape.closed(number * 10.0, window(number))
    written(tape, store)
    store.down = False
    written(tape, store)
    tape.closed(1e6, window(99_999))
    assert [row.position for row in written(tape, store)] == [*range(MOST_WAITING), MOST_WAITING + 3]
    assert tape.left_out == 3


def test_a_row_without_windows_ends_too() -> None:
    """While no window closes the breaker's seconds go on."""
    tape, store = judging(), FakeStore()
    for n in range(2 * MOST_TOLD):
        tape.second(50.0 + n, (1, 0), (1, 0), False)
    assert [len(unpack(row.data)) for row in written(tape, store)] == [MOST_TOLD, MOST_TOLD, 2]


def test_what_cannot_be_packed_is_not_in_the_way_of_what_follows(monkeypatch) -> None:  # type: ignore[no-untyped-def]  # pytest's own
    """Recording must never end the gateway, nor stop for ever."""
    tape, store = judging(), FakeStore()

    def broken(_: object) -> bytes:
        raise TypeError("not JSON")

    tape.closed(60.0, window(5))
    with monkeypatch.context() as patched:
        patched.setattr(module, "pack", broken)
        assert written(tape, store) == []
    tape.closed(70.0, window(6))
    assert [row.position for row in written(tape, store)] == [1]
    assert tape.left_out == 1


def test_every_beginning_is_a_part_of_its_own_even_when_the_clock_stands_still() -> None:
    """Two runs within a millisecond do not overwrite one another, nor do two idle times."""
    tape, store = Tape(), FakeStore()
    for _ in range(3):
        tape.idle(now=50.0, width_s=10.0)
        tape.closed(60.0, window(5))
    rows = written(tape, store)
    assert len({row.part for row in rows}) == 3
    assert {replace(row, part=0) for row in rows} == {replace(rows[0], part=0)}


def test_a_step_keeps_each_key_once_and_no_more_than_any_rule_counts() -> None:
    """What the judge makes of the rest is the same; a day of windows does not fill the disk with keys."""
    tape, store = judging(), FakeStore()
    for number in range(5, 9):
        keys = KeyCounts()
        for key in range(700):
            keys.add(key + 500 * (number - 5))
        tape.closed(number * 10.0, window(number, keys={Role.CANDIDATE: keys}))
    closed = [each for row in written(tape, store) for each in unpack(row.data) if isinstance(each, Closed)]
    kept = [each.window.keys[Role.CANDIDATE] for each in closed]
    assert [len(counts.hashes) for counts in kept] == [700, MOST_KEYS - 700, 0, 0]
    assert [counts.requests for counts in kept] == [700] * 4
    tape.stepped(90.0, {**TERMS, "window": 10})
    for number in (9, 10):
        keys = KeyCounts()
        keys.add(1)
        tape.closed(number * 10.0, window(number, keys={Role.CANDIDATE: keys}))
    *_, before, after = [unpack(row.data)[-1] for row in written(tape, store)]
    assert isinstance(before, Closed)
    assert isinstance(after, Closed)
    assert (before.window.keys, len(after.window.keys[Role.CANDIDATE].hashes)) == ({}, 1)


def test_rows_that_waited_for_the_store_are_packed_one_a_turn() -> None:
    """After an outage there may be a thousand; the control loop is not held up by them."""
    tape, store = judging(), FakeStore()
    for n in range(20):
        tape.closed(60.0 + 10 * n, window(5 + n))

    async def beside() -> int:
        turns, writing = 0, asyncio.ensure_future(tape.write(store))
        while not writing.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(beside()) >= 20
    assert len(store.rows) == 20
