"""Prices of a catalogue, and the widths with the least padding, against plain counting and plain search."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.catalog import Catalogue, Exclusion
from server.core.declare import catalogue_of
from server.core.pricing import Group, Measured, price
from server.core.suggest import best_widths, padding_of

CATALOGUE = Catalogue((1, 4), (8, 16))
TRAFFIC = [Group(1, (4,), 3), Group(2, (16,), 1), Group(5, (4,), 1), Group(1, (17,), 2)]


def test_padding_is_what_the_device_computes_for_nothing() -> None:
    """Rows in lanes pay for their width, a request alone for its empty rows as well."""
    found = price(CATALOGUE, TRAFFIC, {})
    assert (found.programs, found.requests, found.served) == (4, 7, 4)
    assert found.alone_padding == pytest.approx(1 - (3 * 4 + 2 * 16) / (3 * 8 + 4 * 16))
    for each in found.batches:
        assert each.rows == 5
        assert each.padding == pytest.approx(1 - (3 * 4 + 2 * 16) / (3 * 8 + 2 * 16))


def test_in_order_of_arrival_the_widest_row_counts() -> None:
    """Alone it makes no difference; of four rows the chance that all are short is small."""
    one, four = price(CATALOGUE, TRAFFIC, {}).batches
    mean = (3 * 4 + 2 * 16) / 5
    assert one.arrival_padding == pytest.approx(1 - mean / (8 * 0.6 + 16 * 0.4))
    assert four.arrival_padding == pytest.approx(1 - mean / (8 * 0.6**4 + 16 * (1 - 0.6**4)))


def test_what_is_not_served_is_named_the_most_frequent_first() -> None:
    """Too many rows, or too long."""
    assert price(CATALOGUE, TRAFFIC, {}).refused == (Group(1, (17,), 2), Group(5, (4,), 1))


def test_an_excluded_width_costs_the_batch_that_lacks_it() -> None:
    """Its rows are computed as wide as the next one, or have no shape."""
    catalogue = Catalogue((1, 4), (8, 16), exclude=(Exclusion((("batch", 4, 4), ("length", 8, 8))),))
    one, four = price(catalogue, [Group(1, (8,), 1)], {}).batches
    assert (one.padding, four.padding) == (0.0, 0.5)
    catalogue = Catalogue((1, 4), (8, 16), exclude=(Exclusion((("batch", 4, 4), ("length", 16, 16))),))
    assert price(catalogue, [Group(1, (16,), 1)], {}).batches[1].rows == 0


def test_several_dimensions_are_priced_together() -> None:
    """Cells are the product; order of arrival is told for one dimension alone."""
    catalogue = catalogue_of({"batch": [2], "height": [4, 8], "width": [4, 8]})
    found = price(catalogue, [Group(1, (2, 8), 1)], {})
    assert found.alone_padding == pytest.approx(1 - 16 / 64)
    assert found.batches[0].padding == pytest.approx(0.5)
    assert found.batches[0].arrival_padding is None


def test_seconds_and_bytes_are_known_where_every_program_was_measured() -> None:
    """A sum with a gap in it would look like a small one."""
    measured = {str(bucket): Measured(4.0, None, 1.0, 100 * bucket.batch) for bucket in CATALOGUE.buckets()}
    found = price(CATALOGUE, TRAFFIC, measured)
    assert (found.measured, found.cold_s, found.warm_s, found.memory_bytes) == (4, 20.0, None, 400)
    del measured["4x16"]
    found = price(CATALOGUE, TRAFFIC, measured)
    assert (found.measured, found.cold_s, found.memory_bytes) == (3, None, None)


@given(
    st.dictionaries(st.integers(1, 14), st.integers(1, 20), min_size=1, max_size=8),
    st.integers(1, 16),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_the_suggested_widths_are_the_best_there_are(rows: dict[int, int], longest: int, most: int, step: int) -> None:
    """Against every choice; the longest is always served."""
    found = best_widths(rows, longest, most, step)
    if min(rows) > longest:
        assert not found
        return
    possible = sorted({min(-(-length // step) * step, longest) for length in rows if length <= longest} | {longest})
    assert len(found) == min(most, len(possible))
    for number, each in enumerate(found, start=1):
        assert len(each.widths) == number
        assert each.widths[-1] == longest
        assert each.padding == pytest.approx(padding_of(rows, each.widths))
        every = [(*chosen, longest) for chosen in combinations(possible[:-1], number - 1)]
        least = min(padding for widths in every if (padding := padding_of(rows, widths)) is not None)
        assert each.padding == pytest.approx(least)


def test_many_lengths_are_no_matter() -> None:
    """A long context has thousands of them; more widths never have more padding."""
    found = best_widths({length: 1 + length % 7 for length in range(1, 4097)}, 4096, 16)
    paddings = [each.padding for each in found]
    assert paddings == sorted(paddings, reverse=True)
    assert len(found) == 16
