"""Statistics over all compared pairs."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.compare.parity import KEEP, ParityStats
from gateway.core.compare.result import FieldResult, Figure, PairComparison, PairKind, PairResult

Entry = tuple[str, PairResult]


def ok(cosine: float, max_abs: float = 0.001) -> PairResult:
    return PairResult(kind=PairKind.OK, min_cosine=cosine, max_abs=max_abs)


def off(cosine: float, max_abs: float = 0.5) -> PairResult:
    return PairResult(kind=PairKind.TOLERANCE, min_cosine=cosine, max_abs=max_abs, detail=f"cosine {cosine:g}")


def broken(kind: PairKind) -> PairResult:
    return PairResult(kind=kind, detail=str(kind))


def stats_of(*entries: Entry) -> ParityStats:
    stats = ParityStats()
    for request_id, result in entries:
        stats.add(request_id, result)
    return stats


def test_nothing_compared() -> None:
    """No pairs have no figures and no worst."""
    stats = ParityStats()
    assert (stats.pairs, stats.bad, stats.min_cosine, stats.max_abs, stats.worst, stats.sentence()) == (
        0, 0, None, None, [], "",
    )  # fmt: skip


def test_figures_are_extremes_over_all_pairs() -> None:
    """Smallest cosine and largest difference, of good and failed pairs alike."""
    stats = stats_of(("a", ok(0.999, 0.01)), ("b", off(0.91, 0.2)), ("c", ok(0.9999, 0.3)), ("d", broken(PairKind.NAN)))
    assert (stats.pairs, stats.bad, stats.min_cosine, stats.max_abs) == (4, 2, 0.91, 0.3)


def test_what_cannot_be_compared_is_worse_than_any_cosine() -> None:
    """NaN, shape and status come before the smallest cosine among the worst."""
    stats = stats_of(("a", off(-0.9)), ("b", broken(PairKind.SHAPE)), ("c", off(0.5)))
    assert [w.request_id for w in stats.worst] == ["b", "a", "c"]
    assert stats.sentence() == "request b: shape"


def test_what_has_no_cosine_is_sorted_by_kind() -> None:
    """A label that differs could be compared: another form of answer is worse."""
    labels = PairResult(kind=PairKind.TOLERANCE)
    stats = stats_of(("a", labels), ("z", PairResult(kind=PairKind.SHAPE)), ("b", labels))
    assert [w.request_id for w in stats.worst] == ["z", "a", "b"]


def test_only_the_worst_are_remembered() -> None:
    """However many fail, a few are kept, the worst ones."""
    stats = stats_of(*((f"r{i:03}", off(i / 100)) for i in range(50, 0, -1)))
    assert (stats.bad, len(stats.worst)) == (50, KEEP)
    assert [w.request_id for w in stats.worst] == ["r001", "r002", "r003", "r004", "r005"]


def test_good_pairs_are_never_among_the_worst() -> None:
    """Worst disagreements are disagreements."""
    assert stats_of(("a", ok(0.99)), ("b", ok(0.98))).worst == []


def by_field(name: str, content: str, kind: PairKind, share: float) -> PairResult:
    figures = {Figure.PREFIX_SHARE: share, Figure.DIFFERENCES: share}
    found = FieldResult(field=name, kind=kind, figures=figures, sentence="" if kind is PairKind.OK else f"{name}: off")
    return PairComparison((found,)).result(content)


results = st.one_of(
    st.floats(-1.0, 1.0).map(ok),
    st.floats(-1.0, 1.0).map(off),
    st.sampled_from([PairKind.NAN, PairKind.SHAPE, PairKind.STATUS]).map(broken),
    st.builds(
        by_field,
        st.sampled_from(["text", "data"]),
        st.sampled_from(["openai_chat", "json"]),
        st.sampled_from([PairKind.OK, PairKind.TOLERANCE]),
        st.floats(0.0, 1.0),
    ),
)
entries = st.lists(st.tuples(st.uuids().map(str), results), max_size=12, unique_by=lambda entry: entry[0])


@settings(max_examples=50)
@given(entries, st.integers(0, 12))
def test_pairs_may_be_merged_in_any_order(all_entries: list[Entry], at: int) -> None:
    """Two halves merged either way are the statistics of the whole."""
    whole = stats_of(*all_entries)
    one, other = stats_of(*all_entries[:at]), stats_of(*all_entries[at:])
    there, back = stats_of(), stats_of()
    for target, parts in ((there, (one, other)), (back, (other, one))):
        for part in parts:
            target.merge(part)
    assert there.checkpoint() == back.checkpoint() == whole.checkpoint()


@settings(max_examples=50)
@given(entries)
def test_a_checkpoint_holds_everything(all_entries: list[Entry]) -> None:
    """Through JSON and back the statistics are the same."""
    stats = stats_of(*all_entries)
    again = ParityStats.restore(json.loads(json.dumps(stats.checkpoint())))
    assert again.checkpoint() == stats.checkpoint()
    assert (again.pairs, again.bad, again.worst) == (stats.pairs, stats.bad, stats.worst)


def test_a_foreign_checkpoint_is_refused() -> None:
    """An unknown kind of result is not counted as anything."""
    saved = stats_of(("a", ok(1.0))).checkpoint() | {"kinds": {"fine": 3}}
    with pytest.raises(ValueError, match="'fine' is not a valid PairKind"):
        ParityStats.restore(saved)


def test_fields_keep_their_worst_figures_apart() -> None:
    """Each field of each content has its own counts; a small share and many differences are the worst."""
    stats = stats_of(
        ("a", by_field("text", "openai_chat", PairKind.OK, 0.9)),
        ("b", by_field("text", "openai_chat", PairKind.TOLERANCE, 0.2)),
        ("c", by_field("text", "openai_completions", PairKind.OK, 0.5)),
    )
    chat = stats.fields["openai_chat", "text"]
    assert (chat.pairs, chat.bad) == (2, 1)
    assert chat.figures == {Figure.PREFIX_SHARE: 0.2, Figure.DIFFERENCES: 0.9}
    assert stats.fields["openai_completions", "text"].figures[Figure.PREFIX_SHARE] == 0.5


def test_a_checkpoint_without_fields_can_be_restored() -> None:
    """Runs that compared embeddings alone wrote none."""
    saved = stats_of(("a", ok(0.9))).checkpoint()
    del saved["fields"]
    assert (ParityStats.restore(saved).pairs, ParityStats.restore(saved).fields) == (1, {})
