"""Lanes by width."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from server.core.batch import Batch, Lanes, Turn, Waiting
from server.core.catalog import Catalogue
from server.core.padding import pad, split
from server.core.signature import IDS, MASK
from server.core.tensors import Raw
from server.core.types import Bucket, TokenRows

CATALOGUE = Catalogue((1, 2, 4), (4, 8))


def waiting(ticket: int, rows: int = 1, length: int = 4, deadline: float | None = None) -> Waiting:
    return Waiting(ticket, TokenRows([[7] * length] * rows), (length,), float(ticket), deadline)


def tickets(batch: Batch | None) -> list[int]:
    return [] if batch is None else [member.ticket for member in batch.members]


def test_the_lane_of_the_oldest_request_is_served_first() -> None:
    """Age decides between lanes, and a lane goes whole: a later request of the same width travels along."""
    lanes = Lanes(CATALOGUE)
    for each in (waiting(1, length=8), waiting(2, length=4), waiting(3, length=8)):
        lanes.add(each)
    assert tickets(lanes.take(0.0).batch) == [1, 3]
    assert tickets(lanes.take(0.0).batch) == [2]
    assert lanes.take(0.0).batch is None


def test_a_batch_takes_whole_requests_up_to_the_largest_declared_batch() -> None:
    """A request that does not fit any more waits for the next turn, and so does everyone behind it."""
    lanes = Lanes(CATALOGUE)
    for each in (waiting(1, rows=2), waiting(2, rows=3), waiting(3, rows=1)):
        lanes.add(each)
    first = lanes.take(0.0).batch
    assert tickets(first) == [1]
    assert first is not None
    assert first.bucket == Bucket(2, 4)
    second = lanes.take(0.0).batch
    assert tickets(second) == [2, 3]
    assert second is not None
    assert second.bucket == Bucket(4, 4)


def test_a_single_request_is_sent_alone_without_waiting_for_company() -> None:
    """The smallest bucket is used at once."""
    lanes = Lanes(CATALOGUE)
    lanes.add(waiting(1))
    batch = lanes.take(0.0).batch
    assert batch is not None
    assert batch.bucket == Bucket(1, 4)


def test_a_request_past_its_deadline_leaves_the_queue_unserved() -> None:
    """It is named as late, and its rows no longer count."""
    lanes = Lanes(CATALOGUE)
    lanes.add(waiting(1, rows=2, deadline=5.0))
    lanes.add(waiting(2, deadline=5.1))
    turn = lanes.take(5.0)
    assert [each.ticket for each in turn.late] == [1]
    assert tickets(turn.batch) == [2]
    assert lanes.rows == 0


def test_removing_takes_out_exactly_one_request() -> None:
    """A second removal finds nothing."""
    lanes = Lanes(CATALOGUE)
    lanes.add(waiting(1, rows=2))
    lanes.add(waiting(2))
    assert lanes.remove(1)
    assert not lanes.remove(1)
    assert lanes.rows == 1
    assert tickets(lanes.take(0.0).batch) == [2]


def test_clearing_returns_everyone_and_leaves_nothing() -> None:
    """Nobody who waited is forgotten."""
    lanes = Lanes(CATALOGUE)
    lanes.add(waiting(1))
    lanes.add(waiting(2, length=8))
    assert sorted(each.ticket for each in lanes.clear()) == [1, 2]
    assert lanes.rows == 0
    assert lanes.take(0.0).batch is None


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([4, 8])), max_size=30))
def test_batching_neither_loses_nor_invents_requests(shapes: list[tuple[int, int]]) -> None:
    """Every request is in exactly one batch, in order within its lane, inside a declared bucket."""
    lanes = Lanes(CATALOGUE)
    for ticket, (rows, length) in enumerate(shapes):
        lanes.add(waiting(ticket, rows, length))
    served: list[Waiting] = []
    while (batch := lanes.take(0.0).batch) is not None:
        assert batch.bucket in CATALOGUE.buckets()
        assert batch.rows <= batch.bucket.batch
        assert {member.sizes for member in batch.members} == {batch.bucket.sizes}
        served.extend(batch.members)
    assert sorted(each.ticket for each in served) == list(range(len(shapes)))
    for length in CATALOGUE.lengths:
        lane = [each.ticket for each in served if each.sizes == (length,)]
        assert lane == sorted(lane)
    assert lanes.rows == 0


LENIENT = Catalogue((1, 2, 4), (4, 8), largest=Bucket(6, 20))


def test_a_request_larger_than_every_declared_batch_goes_alone() -> None:
    """It takes nobody along, and holds up nobody behind it for longer than its own turn."""
    lanes = Lanes(LENIENT)
    for each in (waiting(1), waiting(2, rows=5), waiting(3), waiting(4)):
        lanes.add(each)
    turns = [lanes.take(0.0).batch for _ in range(3)]
    assert [tickets(batch) for batch in turns] == [[1], [2], [3, 4]]
    assert [str(batch.bucket) for batch in turns if batch is not None] == ["1x4", "6x4", "2x4"]
    assert lanes.rows == 0


def test_company_is_gathered_up_to_the_largest_declared_batch_only() -> None:
    """In a lane of an undeclared length too: together they would need a shape that none of them needs alone."""
    lanes = Lanes(LENIENT)
    for ticket in range(6):
        lanes.add(waiting(ticket, length=16))
    turns = [lanes.take(0.0).batch for _ in range(2)]
    assert [str(batch.bucket) for batch in turns if batch is not None] == ["4x16", "2x16"]


def test_a_lane_of_an_undeclared_length_comes_and_goes_with_who_stands_in_it() -> None:
    """By each way out: to the device, by removal, past its deadline, and by clearing."""
    lanes = Lanes(LENIENT)
    lanes.add(waiting(1, length=16))
    assert tickets(lanes.take(0.0).batch) == [1]
    lanes.add(waiting(2, length=16))
    assert lanes.remove(2)
    lanes.add(waiting(3, length=20, deadline=5.0))
    lanes.add(waiting(4, length=16))
    turn = lanes.take(6.0)
    assert [each.ticket for each in turn.late] == [3]
    assert tickets(turn.batch) == [4]
    lanes.add(waiting(5, length=20))
    assert [each.ticket for each in lanes.clear()] == [5]
    assert lanes.take(0.0) == Turn(None, ())
    assert lanes.rows == 0


def test_who_needs_a_refused_shape_leaves_and_others_form_it_no_more() -> None:
    """A shape's refusal concerns whose own it is; smaller ones go in another shape."""
    lanes = Lanes(LENIENT)
    for each in (waiting(1, length=16), waiting(2, rows=2, length=16), waiting(3, length=16), waiting(4, rows=2)):
        lanes.add(each)
    assert not lanes.refuses(Bucket(2, 16))
    assert [each.ticket for each in lanes.refuse(Bucket(2, 16))] == [2]
    assert (lanes.refuses(Bucket(2, 16)), lanes.refuses(Bucket(1, 16)), lanes.rows) == (True, False, 4)
    turns = [lanes.take(0.0).batch for _ in range(3)]
    assert [tickets(batch) for batch in turns] == [[1], [3], [4]]
    assert [str(batch.bucket) for batch in turns if batch is not None] == ["1x16", "1x16", "2x4"]


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 20)), max_size=30))
def test_lenient_batching_serves_everyone_within_the_bound(shapes: list[tuple[int, int]]) -> None:
    """Every request is in exactly one batch, in order within its lane, and several fill no undeclared batch size."""
    lanes = Lanes(LENIENT)
    for ticket, (rows, longest) in enumerate(shapes):
        bucket = LENIENT.fit(rows, longest)
        assert isinstance(bucket, Bucket)
        lanes.add(waiting(ticket, rows, bucket.length))
    served: list[int] = []
    while (batch := lanes.take(0.0).batch) is not None:
        assert batch.rows <= batch.bucket.batch <= (4 if len(batch.members) > 1 else 6)
        assert {member.sizes for member in batch.members} == {batch.bucket.sizes}
        assert tickets(batch) == sorted(tickets(batch))
        served += tickets(batch)
    assert sorted(served) == list(range(len(shapes)))
    assert lanes.rows == 0


def ints(raw: Raw) -> list[int]:
    return [int(value) for value in raw.array().ravel()]


def test_padding_fills_the_bucket_and_marks_what_counts() -> None:
    """Ids end in zeros under mask zero; a row beyond the requests keeps one token, so that its mean exists."""
    batch = Batch(
        Bucket(4, 3), (Waiting(1, TokenRows([[5, 6], [7]]), (3,), 0.0), Waiting(2, TokenRows([[8, 9, 4]]), (3,), 0.0))
    )
    inputs = pad(batch)
    assert ints(inputs[IDS]) == [5, 6, 0, 7, 0, 0, 8, 9, 4, 0, 0, 0]
    assert ints(inputs[MASK]) == [1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0]


def test_padding_keeps_the_callers_mask_and_cuts_the_callers_padding() -> None:
    """Holes stay holes; columns beyond the bucket were padding."""
    tokens = TokenRows([[5, 6, 7, 0, 0]], [[1, 0, 1, 0, 0]])
    inputs = pad(Batch(Bucket(1, 4), (Waiting(1, tokens, (4,), 0.0),)))
    assert ints(inputs[IDS]) == [5, 6, 7, 0]
    assert ints(inputs[MASK]) == [1, 0, 1, 0]


def test_splitting_gives_each_request_its_own_rows() -> None:
    """Shares come in order; the padding rows at the end belong to nobody."""
    rows = array("f", [1, 1, 2, 2, 3, 3, 0, 0]).tobytes()
    first, second = split({"y": Raw("FP32", (4, 2), rows)}, [1, 2])
    assert first["y"].array().tolist() == [[1, 1]]
    assert second["y"].array().tolist() == [[2, 2], [3, 3]]
