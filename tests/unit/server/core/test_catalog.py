"""Declared shapes are the served shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core import catalog as catalog_module
from server.core.catalog import Catalogue
from server.core.types import Bucket, ShapeNotServed

CATALOGUE = Catalogue((1, 4, 8), (16, 32))


def test_every_pair_is_a_bucket() -> None:
    """The catalogue is the product of its batch sizes and lengths, each once."""
    assert len(CATALOGUE.buckets()) == len(set(CATALOGUE.buckets())) == 6


@pytest.mark.parametrize(
    ("rows", "longest", "bucket"),
    [
        (1, 1, "1x16"),
        (1, 16, "1x16"),
        (1, 17, "1x32"),
        (2, 3, "4x16"),
        (4, 32, "4x32"),
        (5, 32, "8x32"),
        (8, 16, "8x16"),
    ],
)
def test_the_smallest_bucket_that_holds_a_request_is_chosen(rows: int, longest: int, bucket: str) -> None:
    """Rounding goes up, and no further than needed."""
    assert str(CATALOGUE.fit(rows, longest)) == bucket


def test_every_request_inside_the_limits_gets_a_declared_bucket() -> None:
    """Nothing outside the warmed shapes is ever asked of the device."""
    declared = set(CATALOGUE.buckets())
    for rows in range(1, 9):
        for longest in range(1, 33):
            bucket = CATALOGUE.fit(rows, longest)
            assert isinstance(bucket, Bucket)
            assert bucket in declared
            assert bucket.batch >= rows
            assert bucket.length >= longest


@pytest.mark.parametrize(("rows", "longest"), [(9, 1), (1, 33), (9, 33)])
def test_a_request_outside_is_refused_with_the_limits(rows: int, longest: int) -> None:
    """The refusal names what came and what is allowed."""
    refused = CATALOGUE.fit(rows, longest)
    assert isinstance(refused, ShapeNotServed)
    for part in (f"{rows} rows", f"{longest} tokens", "at most 8 rows", "at most 32 tokens", "batch 1,4,8"):
        assert part in refused.message


def test_rows_alone_and_length_alone_can_be_refused() -> None:
    """Before a text is tokenised it is known how many there are, and that one is too long."""
    assert CATALOGUE.refuse_rows(8) is None
    assert CATALOGUE.refuse_length(32) is None
    too_many, too_long = CATALOGUE.refuse_rows(9), CATALOGUE.refuse_length(33)
    assert isinstance(too_many, ShapeNotServed)
    assert isinstance(too_long, ShapeNotServed)
    assert "got 9 rows, a batch here takes at most 8 rows of at most 32 tokens" in too_many.message
    assert "at least 33 tokens" in too_long.message


@pytest.mark.parametrize(
    ("batches", "lengths"), [((), (16,)), ((1,), ()), ((4, 1), (16,)), ((1, 1), (16,)), ((0, 1), (16,)), ((1,), (-16,))]
)
def test_a_catalogue_that_does_not_rise_cannot_be_built(batches: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    """Empty, falling, repeated and non-positive values are refused."""
    with pytest.raises(ValueError, match="rising positive integers"):
        Catalogue(batches, lengths)


def test_a_catalogue_with_too_many_buckets_cannot_be_built() -> None:
    """Each bucket costs warm-up time, so their number is bounded."""
    with pytest.raises(ValueError, match="at most 256"):
        Catalogue(tuple(range(1, 18)), tuple(range(1, 18)))


def test_a_bucket_without_cells_cannot_be_built() -> None:
    """Batch and length start at one."""
    with pytest.raises(ValueError, match="at least 1"):
        Bucket(0, 16)


LENIENT = Catalogue((1, 4, 8), (16, 32), largest=Bucket(12, 100))


@pytest.mark.parametrize(
    ("rows", "longest", "bucket"),
    [
        (2, 17, "4x32"),
        (1, 33, "1x64"),
        (3, 65, "4x100"),
        (9, 1, "12x16"),
        (12, 100, "12x100"),
    ],
)
def test_an_undeclared_size_is_rounded_to_a_power_of_two_and_the_bound(rows: int, longest: int, bucket: str) -> None:
    """A size that a declared one holds stays declared, each dimension for itself."""
    assert str(LENIENT.fit(rows, longest)) == bucket


def test_a_lenient_server_tells_its_own_bound() -> None:
    """In its refusals and in its name, which two servers are compared by."""
    assert str(LENIENT) == "batch 1,4,8 x length 16,32, undeclared up to 12x100"
    assert LENIENT.refuse_rows(12) is None
    assert LENIENT.refuse_length(100) is None
    for refused in (LENIENT.refuse_rows(13), LENIENT.refuse_length(101), LENIENT.fit(13, 1), LENIENT.fit(1, 101)):
        assert isinstance(refused, ShapeNotServed)
        assert "at most 12 rows of at most 100 tokens" in refused.message
        assert "undeclared up to 12x100" in refused.message


@given(st.data())
def test_every_request_within_the_bound_gets_one_of_the_counted_buckets(data: st.DataObject) -> None:
    """The bucket holds it and is within the bound; as many buckets come about as programs are counted, no more.

    Nobody gets another bucket for standing in its lane: what fits a bucket's length is that bucket's length.
    """
    sizes = st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True).map(lambda each: tuple(sorted(each)))
    batches, lengths = data.draw(sizes), data.draw(sizes)
    largest = Bucket(batches[-1] + data.draw(st.integers(0, 30)), lengths[-1] + data.draw(st.integers(0, 30)))
    catalogue = Catalogue(batches, lengths, largest)
    seen = set()
    for rows in range(1, largest.batch + 1):
        for longest in range(1, largest.length + 1):
            bucket = catalogue.fit(rows, longest)
            assert isinstance(bucket, Bucket)
            assert rows <= bucket.batch <= largest.batch
            assert longest <= bucket.length <= largest.length
            assert catalogue.fit(rows, bucket.length) == bucket
            seen.add(bucket)
    assert len(seen) == catalogue.programs
    assert set(catalogue.buckets()) <= seen
    assert isinstance(catalogue.fit(largest.batch + 1, 1), ShapeNotServed)
    assert isinstance(catalogue.fit(1, largest.length + 1), ShapeNotServed)


@pytest.mark.parametrize("catalogue", [Catalogue((1, 4), (16, 32)), Catalogue((1, 4), (16, 32), Bucket(8, 128))])
def test_the_sizes_are_computed_once(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request and every batch asks for its bucket; what a catalogue is compared by is what was declared."""
    monkeypatch.delattr(catalog_module, "_sizes")
    assert catalogue.fit(3, 17) == Bucket(4, 32)
    assert catalogue.programs in (4, 12)
    assert "sizes" not in repr(catalogue)


def test_a_strict_catalogue_has_as_many_programs_as_buckets() -> None:
    """Nothing else ever compiles."""
    assert CATALOGUE.programs == len(CATALOGUE.buckets())
