"""What batches cost, and how large they should be for it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.batch import Lanes, Waiting
from server.core.catalog import Catalogue
from server.core.costs import Costs
from server.core.types import Bucket, BucketTiming, TokenRows

CATALOGUE = Catalogue((1, 4, 16), (8, 32), largest=Bucket(24, 64))


def costs_of(seconds: Callable[[Bucket], float]) -> Costs:
    return Costs(CATALOGUE, [BucketTiming(each, 1.0, seconds(each), 4, 0, "eager") for each in CATALOGUE.buckets()])


BY_ROW = costs_of(lambda bucket: bucket.cells / 1000)
FLAT = costs_of(lambda bucket: 0.01 + bucket.cells / 1e6)


def waiting(ticket: int, rows: int = 1, length: int = 8) -> Waiting:
    return Waiting(ticket, TokenRows([[7] * length] * rows), (length,), 0.0)


def first_batch(costs: Costs, rows: list[int]) -> tuple[int, str]:
    """How many of these requests go together, and where."""
    lanes = Lanes(CATALOGUE, costs)
    for ticket, count in enumerate(rows):
        lanes.add(waiting(ticket, count))
    batch = lanes.take(0.0).batch
    assert batch is not None
    return len(batch.members), str(batch.bucket)


def test_where_rounding_up_is_dear_a_batch_is_filled() -> None:
    """Five rows in a bucket of 16 would pay for eleven that nobody asked for."""
    assert first_batch(BY_ROW, [1] * 5) == (4, "4x8")
    assert first_batch(BY_ROW, [1] * 3) == (1, "1x8")
    assert first_batch(BY_ROW, [1] * 16) == (16, "16x8")


def test_where_rounding_up_is_free_everyone_goes() -> None:
    """As on a TPU."""
    assert first_batch(FLAT, [1] * 5) == (5, "16x8")
    assert first_batch(FLAT, [1] * 2) == (2, "4x8")


def test_of_nearly_equal_choices_the_larger_is_taken() -> None:
    """A few calls' noise must not cut a batch in two."""
    noisy = costs_of(lambda bucket: bucket.cells / 1000 * (1.03 if bucket.batch == 16 else 1.0))
    assert first_batch(noisy, [1] * 16) == (16, "16x8")


def test_a_shape_that_was_timed_in_a_bad_moment_costs_no_more_than_a_larger_one() -> None:
    """A pause of the machine in the warm-up must not close a batch size for good."""
    paused = costs_of(lambda bucket: 9.0 if bucket == Bucket(4, 8) else bucket.cells / 1000)
    assert paused.seconds(Bucket(4, 8)) == pytest.approx(0.128)
    assert paused.seconds(Bucket(1, 8)) == pytest.approx(0.008)


def test_without_timings_everyone_who_fits_goes() -> None:
    """Nothing is known, so nothing is refused for it either."""
    unknown = Costs(CATALOGUE)
    assert first_batch(unknown, [1] * 5) == (5, "16x8")
    assert unknown.work(100, (8,)) == 0.0


def test_an_undeclared_shape_costs_as_much_as_its_size() -> None:
    """By the largest shape that was timed."""
    assert BY_ROW.seconds(Bucket(24, 64)) == pytest.approx(1.536)


def test_parts_are_the_best_declared_batch() -> None:
    """Of equal ones the largest, which waits fewest turns."""
    assert BY_ROW.part_rows((8,)) == 16
    assert costs_of(lambda bucket: bucket.cells / 1000 * (2 if bucket.batch == 16 else 1)).part_rows((8,)) == 4
    assert FLAT.part_rows((8,)) == 16
    assert Costs(CATALOGUE).part_rows((8,)) == 16


def test_work_is_the_sum_of_the_parts() -> None:
    """The last part counts as what it needs; what stands before it is the rest."""
    assert FLAT.work(33, (8,)) == pytest.approx(2 * FLAT.seconds(Bucket(16, 8)) + FLAT.seconds(Bucket(1, 8)))
    assert FLAT.ahead(33, (8,)) == pytest.approx(2 * FLAT.seconds(Bucket(16, 8)))
    assert FLAT.ahead(16, (8,)) == 0.0


@given(st.lists(st.tuples(st.integers(1, 16), st.sampled_from([8, 32])), max_size=40), st.sampled_from([BY_ROW, FLAT]))
def test_the_oldest_is_in_the_next_batch_and_nobody_twice(shapes: list[tuple[int, int]], costs: Costs) -> None:
    """Whatever is cheapest, every turn serves who came first; work in the queue ends at zero with the last one."""
    lanes = Lanes(CATALOGUE, costs)
    for ticket, (rows, length) in enumerate(shapes):
        lanes.add(waiting(ticket, rows, length))
    left = set(range(len(shapes)))
    while (batch := lanes.take(0.0).batch) is not None:
        served = {member.ticket for member in batch.members}
        assert min(left) in served
        assert served <= left
        assert batch.rows <= batch.bucket.batch <= 16
        left -= served
        assert lanes.ahead_s(1, (8,)) >= 0.0
    assert not left
    assert lanes.rows == 0
    assert lanes.ahead_s(1, (8,)) == 0.0


@given(st.lists(st.sampled_from(["add", "take", "remove"]), max_size=60))
def test_work_in_the_queue_follows_who_stands_there(steps: list[str]) -> None:
    """However they come and go, it is what the lanes' rows cost."""
    lanes, ticket, lengths = Lanes(CATALOGUE, FLAT), 0, (8, 32)
    standing: dict[int, Waiting] = {}
    for number, step in enumerate(steps):
        if step == "add":
            ticket += 1
            standing[ticket] = waiting(ticket, 1 + number % 5, lengths[number % 2])
            lanes.add(standing[ticket])
        elif step == "take":
            batch = lanes.take(0.0).batch
            for member in () if batch is None else batch.members:
                del standing[member.ticket]
        elif standing:
            gone = sorted(standing)[number % len(standing)]
            del standing[gone]
            assert lanes.remove(gone)
    rows = {
        length: sum(each.asked.count for each in standing.values() if each.sizes == (length,)) for length in lengths
    }
    expected = FLAT.work(rows[8], (8,)) + FLAT.ahead(rows[32] + 1, (32,))
    assert lanes.ahead_s(1, (32,)) == pytest.approx(expected, abs=1e-9)
