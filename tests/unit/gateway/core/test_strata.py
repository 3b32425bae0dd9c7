"""Classes of requests: edges, names, and plans that are refused."""

import pytest
from decision_cases import vector_plan

from gateway.core.plan import PlanError
from gateway.core.strata import MOST_EDGES, count_of, in_requests, names_of, stratum_of

EDGES = (512, 4096)


@pytest.mark.parametrize(
    ("length", "stratum"), [(0, 0), (1, 0), (512, 0), (513, 1), (4096, 1), (4097, 2), (10**9, 2), (None, 2)]
)
def test_a_body_is_in_the_class_whose_upper_edge_it_does_not_pass(length: int | None, stratum: int) -> None:
    """An edge belongs to the class below it; a body of unknown length is in the last."""
    assert stratum_of(EDGES, length) == stratum


def test_without_edges_there_are_no_classes() -> None:
    """Nothing is told apart: one nameless class for the data plane, none for the judge."""
    assert (stratum_of((), 5), stratum_of((), None), count_of(()), names_of(())) == (0, 0, 0, ())


def test_names_say_what_is_in_a_class() -> None:
    """Names read as they stand in a table and in a sentence."""
    assert names_of(EDGES) == ("up to 512 B", "513 to 4096 B", "above 4096 B")
    assert names_of((100,)) == ("up to 100 B", "above 100 B")
    assert [f"lat_p95{in_requests(name)}" for name in (*names_of(EDGES), None)] == [
        "lat_p95 in requests of up to 512 B",
        "lat_p95 in requests of 513 to 4096 B",
        "lat_p95 in requests above 4096 B",
        "lat_p95",
    ]


@pytest.mark.parametrize(
    ("edges", "problem"),
    [
        ((512, 512), r"strata\.edges: \[512, 512\] must rise"),
        ((4096, 512), r"strata\.edges: \[4096, 512\] must rise"),
        ((0, 512), r"strata\.edges: \[0, 512\] must be 1 byte or more"),
        (tuple(range(1, 9)), r"strata\.edges: 8 edges make 9 classes; at most 7 edges"),
    ],
)
def test_a_plan_with_impossible_edges_is_refused(edges: tuple[int, ...], problem: str) -> None:
    """Edges rise, are at least one byte, and make at most eight classes."""
    with pytest.raises(PlanError, match=problem):
        vector_plan(strata=edges)


def test_the_most_edges_are_allowed() -> None:
    """Seven edges, eight classes."""
    assert count_of(vector_plan(strata=tuple(range(1, MOST_EDGES + 1))).strata) == 8
