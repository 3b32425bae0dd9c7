"""Gate 1: what may differ between two arms."""

from typing import Any

import pytest

from gateway.core.identity import MAY_DIFFER, MUST_EQUAL, check_identity, differences

GPU: dict[str, object] = {
    "model": "minilm",
    "revision": "53aa51",
    "tokenizer": "tok-1",
    "truncation": "longest",
    "output": "float32[384] normalised",
    "dtype": "float32",
    "matmul_precision": "highest",
    "catalogue": "1,4,8 x 16,32,64,128",
    "device": "cuda",
    "emulated": False,
    "compiled": True,
    "strict": True,
    "torch": "2.13.0",
    "torch_tpu": None,
    "libtpu": None,
    "topology": None,
}
TPU = GPU | {"device": "tpu", "dtype": "bfloat16", "torch_tpu": "0.2.0", "libtpu": "0.0.43", "topology": "2x2"}
DECLARED = ("device", "dtype", "torch_tpu", "libtpu", "topology")


def problems(
    candidate: dict[str, object], *, kind: str = "migration", declared: tuple[str, ...] = DECLARED
) -> list[str]:
    return list(check_identity(GPU, candidate, kind=kind, declared=declared).problems)


def test_a_declared_migration_passes_and_lists_its_differences() -> None:
    """What differs is declared: no problem, and the list says what it is."""
    check = check_identity(GPU, TPU, kind="migration", declared=DECLARED)
    assert check.problems == ()
    assert [d.field for d in check.differences] == ["device", "dtype", "torch_tpu", "libtpu", "topology"]
    assert str(check.differences[0]) == "device (baseline 'cuda', candidate 'tpu')"
    assert str(check.differences[2]) == "torch_tpu (baseline not_available, candidate '0.2.0')"


def test_equal_arms_have_no_differences() -> None:
    """Nothing differs: an A/A run is a migration without differences."""
    check = check_identity(GPU, dict(GPU), kind="migration", declared=())
    assert (check.problems, check.differences) == ((), ())


@pytest.mark.parametrize("field", MAY_DIFFER)
def test_an_undeclared_difference_is_a_problem(field: str) -> None:
    """Each dimension needs its declaration."""
    found = problems(GPU | {field: "other"}, declared=())
    assert len(found) == 1
    assert found[0].startswith(f"{field} (baseline ")
    assert "not declared" in found[0]


def test_a_field_that_nobody_knows_is_compared_too() -> None:
    """What only one arm reports differs, and has to be declared like the rest."""
    assert problems(GPU | {"firmware": "9"}, declared=())[0].startswith("firmware (baseline not_available")
    assert problems(GPU | {"firmware": "9"}, declared=("firmware",)) == []


@pytest.mark.parametrize("field", MUST_EQUAL)
def test_what_must_be_equal_cannot_be_declared_away(field: str) -> None:
    """Model data and contract are the same or there is no comparison."""
    found = problems(GPU | {field: "other"}, declared=(field,))
    assert any("must be equal in both arms" in p and p.startswith(f"{field} (baseline") for p in found)
    assert any(p.startswith(f"declared_differences: '{field}'") for p in found)


@pytest.mark.parametrize("value", [None, "", "not_available"])
@pytest.mark.parametrize("field", MUST_EQUAL)
def test_what_must_be_equal_must_be_known(field: str, value: Any) -> None:
    """Two arms that both do not know their revision are not thereby equal."""
    check = check_identity(GPU | {field: value}, GPU | {field: value}, kind="migration", declared=())
    assert check.problems == (f"{field}: not reported by baseline and candidate; must be known and equal in both arms",)


def test_an_arm_that_reports_nothing_is_refused() -> None:
    """An empty identity fails on every field that must be equal."""
    found = problems({}, declared=tuple(MAY_DIFFER))
    assert [p.split(":")[0] for p in found] == list(MUST_EQUAL)


def test_an_upgrade_changes_exactly_one_dimension() -> None:
    """One difference passes; none and two do not, and are counted."""
    one = GPU | {"torch": "2.14.0"}
    two = one | {"strict": False}
    declared = ("torch", "strict")
    assert problems(one, kind="upgrade", declared=declared) == []
    assert problems(two, kind="upgrade", declared=declared) == [
        "run_kind: upgrade, but 2 dimensions differ (torch, strict); allowed: exactly 1"
    ]
    assert problems(dict(GPU), kind="upgrade", declared=declared) == [
        "run_kind: upgrade, but 0 dimensions differ (nothing); allowed: exactly 1"
    ]


def test_an_upgrade_declares_its_dimension_too() -> None:
    """The one dimension is the one that was meant."""
    assert "not declared" in problems(GPU | {"torch": "2.14.0"}, kind="upgrade", declared=("libtpu",))[0]


def test_an_unknown_kind_of_run_is_refused() -> None:
    """Kinds are migration and upgrade."""
    with pytest.raises(ValueError, match="run_kind: 'trial' is not allowed; migration or upgrade"):
        check_identity(GPU, TPU, kind="trial", declared=())


def test_swapping_the_arms_swaps_the_differences() -> None:
    """Neither arm is privileged."""
    there, back = differences(GPU, TPU), differences(TPU, GPU)
    assert [(d.field, d.baseline, d.candidate) for d in there] == [(d.field, d.candidate, d.baseline) for d in back]
