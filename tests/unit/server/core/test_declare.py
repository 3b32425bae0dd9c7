"""Catalogues as the configuration spells them: every problem at once, several dimensions, exclusions."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.batch import Lanes, Waiting
from server.core.catalog import Catalogue, CatalogueRefused, Exclusion
from server.core.declare import catalogue_of, document_of
from server.core.types import Bucket, ShapeNotServed, TokenRows


@pytest.mark.parametrize(
    ("spelt", "sizes"),
    [
        ([3, 7], (3, 7)),
        ({"powers_of_two": {"from": 8, "to": 64}}, (8, 16, 32, 64)),
        ({"powers_of_two": {"from": 1, "to": 1}}, (1,)),
        ({"multiples": {"of": 32, "to": 96}}, (32, 64, 96)),
        ({"multiples": {"of": 8, "from": 24, "to": 40}}, (24, 32, 40)),
    ],
)
def test_sizes_are_a_list_or_a_rule(spelt: Any, sizes: tuple[int, ...]) -> None:
    """What the rule gives is what a list would have said."""
    catalogue = catalogue_of({"batch": [1], "length": spelt})
    assert catalogue == Catalogue((1,), sizes)
    assert [bucket.length for bucket in catalogue.buckets()] == list(sizes)


@pytest.mark.parametrize(
    "spelt",
    [
        "16",
        16,
        {"from": 1, "to": 8},
        {"powers_of_two": {"from": 3, "to": 8}},
        {"powers_of_two": {"from": 16, "to": 8}},
        {"powers_of_two": {"to": 8}},
        {"powers_of_two": {"from": 1, "to": 2**21}},
        {"powers_of_two": {"from": 1, "to": 8}, "multiples": {"of": 8, "to": 16}},
        {"multiples": {"of": 16, "to": 40}},
        {"multiples": {"of": 0, "to": 40}},
        {"multiples": {"of": 1, "to": 2**20}},
        {"multiples": {"of": 8, "to": 16, "by": 8}},
        [True],
        [1.5],
        [],
        [2**21],
    ],
)
def test_sizes_that_make_no_sense_are_refused_by_name(spelt: Any) -> None:
    """The field, what stood there and what may stand there."""
    with pytest.raises(CatalogueRefused, match=r"catalogue\.length: got .*, allowed "):
        catalogue_of({"batch": [1], "length": spelt})


def test_every_problem_is_reported_at_once() -> None:
    """One start shows them all."""
    with pytest.raises(CatalogueRefused) as refused:
        catalogue_of(
            {
                "batch": [4, 1],
                "height": {"multiples": {"of": 32, "to": 100}},
                "Width": [8],
                "exclude": [{"batch": {"above": 4}}, {"depth": 1}, 3],
            }
        )
    found = "\n".join(refused.value.problems)
    assert len(refused.value.problems) == 6
    for part in (
        "catalogue.batch: got [4, 1]",
        "catalogue.height: got {'multiples'",
        "dimension 'Width'",
        "catalogue.exclude.0.batch: got {'above': 4}",
        "catalogue.exclude.1: got {'depth': 1}",
        "catalogue.exclude.2: got 3",
    ):
        assert part in found


@pytest.mark.parametrize("document", [None, [1], {"length": [1]}, {**{f"d{n}": [1] for n in range(5)}}])
def test_a_catalogue_needs_a_batch_and_at_most_four_dimensions(document: Any) -> None:
    """A size alone is no shape."""
    with pytest.raises(CatalogueRefused, match="catalogue"):
        catalogue_of(document)


def test_a_batch_alone_is_a_catalogue_of_rows() -> None:
    """For inputs of fixed sizes; its one size is 1, and comes back as it was."""
    section = {"batch": [1, 4]}
    catalogue = catalogue_of(section)
    assert [str(bucket) for bucket in catalogue.buckets()] == ["1x1", "4x1"]
    assert catalogue.fit(3, 1) == Bucket(4, 1)
    assert (str(catalogue), document_of(catalogue)) == ("batch 1,4", section)
    refused = catalogue.fit(5, 1)
    assert isinstance(refused, ShapeNotServed)
    assert "got 5 rows, a batch here takes at most 4 rows (catalogue batch 1,4)" in refused.message


IMAGES = catalogue_of(
    {
        "batch": [1, 4],
        "height": [224, 448],
        "width": [224, 448],
        "exclude": [{"batch": 4, "height": 448}, {"height": 224, "width": {"from": 448}}],
    }
)


def test_a_bucket_has_a_size_in_each_named_dimension() -> None:
    """And none that is excluded is declared."""
    assert [str(bucket) for bucket in IMAGES.buckets()] == ["1x224x224", "4x224x224", "1x448x224", "1x448x448"]
    assert IMAGES.programs == 4
    assert "height 224,448 x width 224,448 without batch 4 and height 448; " in str(IMAGES)


@pytest.mark.parametrize(
    ("rows", "height", "width", "bucket"),
    [(1, 10, 10, "1x224x224"), (2, 1, 1, "4x224x224"), (1, 100, 300, "1x448x448"), (1, 300, 1, "1x448x224")],
)
def test_what_would_be_excluded_takes_the_next_larger_shape(rows: int, height: int, width: int, bucket: str) -> None:
    """In whichever dimension that costs fewest."""
    assert str(IMAGES.fit(rows, height, width)) == bucket


@pytest.mark.parametrize(("rows", "height", "width"), [(2, 300, 1), (2, 1, 300), (5, 1, 1), (1, 449, 1)])
def test_what_nothing_holds_is_refused_with_the_request_and_the_catalogue(rows: int, height: int, width: int) -> None:
    """An exclusion may be the reason, so it stands in the sentence."""
    refused = IMAGES.fit(rows, height, width)
    assert isinstance(refused, ShapeNotServed)
    assert f"got {rows} rows of height {height}, width {width}" in refused.message
    assert "without batch 4 and height 448" in refused.message


@given(st.data())
def test_fit_is_the_smallest_declared_bucket_that_holds_the_request(data: st.DataObject) -> None:
    """Against a plain search, with whatever is excluded."""
    sizes = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True).map(lambda each: tuple(sorted(each)))
    axes = [data.draw(sizes) for _ in range(3)]
    every = list(product(*axes))
    gone = data.draw(st.lists(st.sampled_from(every), max_size=len(every) - 1, unique=True))
    names = ("batch", "height", "width")
    exclude = tuple(
        Exclusion(tuple((name, size, size) for name, size in zip(names, each, strict=True))) for each in gone
    )
    catalogue = Catalogue(axes[0], axes[1], names=names[1:], more=(axes[2],), exclude=exclude)
    declared = {Bucket.of(each) for each in every if each not in gone}
    assert set(catalogue.buckets()) == declared
    for need in product(range(1, 11), repeat=3):
        holds = [each for each in declared if all(a >= b for a, b in zip((each.batch, *each.sizes), need, strict=True))]
        found = catalogue.fit(*need)
        if isinstance(found, Bucket):
            assert found in holds
            assert found.cells == min(each.cells for each in holds)
        else:
            assert not holds


def test_an_exclusion_must_match_and_something_must_be_left() -> None:
    """A misspelt one would be served without a word."""
    with pytest.raises(CatalogueRefused, match=r"exclude: batch 3 excludes nothing"):
        catalogue_of({"batch": [1, 4], "length": [8], "exclude": [{"batch": 3}]})
    with pytest.raises(CatalogueRefused, match="leaves no shape"):
        catalogue_of({"batch": [1, 4], "length": [8], "exclude": [{"length": {"to": 8}}]})


def test_limits_are_those_of_what_is_left() -> None:
    """A size that is excluded altogether is no limit."""
    catalogue = catalogue_of({"batch": [1, 4, 8], "length": [8, 16], "exclude": [{"batch": 8}, {"length": 16}]})
    assert (catalogue.max_rows, catalogue.max_length) == (4, 8)


def test_company_never_makes_a_row_longer() -> None:
    """Where the larger batch is excluded at their length, requests go in two batches."""
    catalogue = catalogue_of({"batch": [1, 2], "length": [8, 16], "exclude": [{"batch": 2, "length": 8}]})
    lanes = Lanes(catalogue)
    for ticket in (1, 2):
        lanes.add(Waiting(ticket, TokenRows([[1, 2]]), (8,), 0.0))
    batches = [lanes.take(1.0).batch for _ in range(2)]
    assert [str(batch.bucket) for batch in batches if batch is not None] == ["1x8", "1x8"]


def test_two_texts_that_fit_together_only_in_a_longer_shape_are_served_there() -> None:
    """A request is one unit, so it takes the shape that holds it."""
    catalogue = catalogue_of({"batch": [1, 2], "length": [8, 16], "exclude": [{"batch": 2, "length": 8}]})
    assert catalogue.fit(2, 3) == Bucket(2, 16)


def test_lenient_mode_is_for_batch_and_length() -> None:
    """An exclusion holds there, too."""
    with pytest.raises(CatalogueRefused, match="only those have a lenient mode"):
        Catalogue((1,), (8,), Bucket(2, 16), names=("height",))
    lenient = Catalogue((1, 2), (8,), Bucket(2, 16), exclude=(Exclusion((("batch", 2, 2), ("length", 8, None))),))
    assert lenient.programs == 2
    assert isinstance(lenient.fit(2, 9), ShapeNotServed)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"batch": {"multiples": {"of": 1, "to": 65}}, "length": {"multiples": {"of": 1, "to": 64}}}, "before excl"),
        ({"batch": {"multiples": {"of": 1, "to": 17}}, "length": {"multiples": {"of": 1, "to": 16}}}, "at most 256"),
        ({"batch": [2**12], "length": [2**11]}, "token positions"),
    ],
)
def test_the_number_and_the_size_of_programs_are_bounded(document: Any, words: str) -> None:
    """Each is a compile, and a batch must fit into a frame to the worker."""
    with pytest.raises(CatalogueRefused, match=words):
        catalogue_of(document)


@pytest.mark.parametrize(
    "section",
    [
        {"batch": [1, 8], "length": {"powers_of_two": {"from": 16, "to": 64}}},
        {"batch": [1, 8], "height": [8, 16], "width": [8], "exclude": [{"batch": 8, "height": {"from": 16}}]},
        {"batch": [1, 8], "length": [8, 16, 32], "exclude": [{"length": {"to": 8}}, {"batch": 8, "length": 32}]},
    ],
)
def test_a_catalogue_is_written_down_and_read_again(section: dict[str, Any]) -> None:
    """Smoke starts a server with the settings that it was given."""
    catalogue = catalogue_of(section)
    assert catalogue_of(document_of(catalogue)) == catalogue
