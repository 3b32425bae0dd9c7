"""The tolerances of the smoke are those that a plan takes by default."""

import pytest

from gateway.core.compare.defaults import BOUNDS
from server.core.tolerance import BFLOAT16, FLOAT32, Tolerance, tolerance_for
from server.core.types import DeviceKind, DtypeName, MatmulPrecision


@pytest.mark.parametrize("ours", [FLOAT32, BFLOAT16])
def test_the_numbers_are_the_gateways(ours: Tolerance) -> None:
    """What passes here is not rolled back there for its arithmetic."""
    theirs = BOUNDS[ours.name]
    assert (ours.cosine_min, ours.length_rel) == (theirs.cosine.min, theirs.cosine.length_rel)
    assert (ours.absolute, ours.relative) == (theirs.elements.abs, theirs.elements.rel)


@pytest.mark.parametrize(
    ("dtype", "precision", "device", "wanted"),
    [
        ("float32", "highest", "tpu", FLOAT32),
        ("float32", "high", "tpu", BFLOAT16),
        ("float32", "high", "tpu-emulator", BFLOAT16),
        ("float32", "highest", "cuda", FLOAT32),
        ("float32", "high", "cuda", FLOAT32),
        ("float32", "medium", "cuda", BFLOAT16),
        ("float32", "highest", "cpu", FLOAT32),
        ("bfloat16", "highest", "tpu", BFLOAT16),
        ("bfloat16", "highest", "cuda", BFLOAT16),
    ],
)
def test_rows_of_the_table(dtype: DtypeName, precision: MatmulPrecision, device: DeviceKind, wanted: Tolerance) -> None:
    """float32 at full precision is held to four nines, bfloat16 and what multiplies in it to two."""
    assert tolerance_for(dtype, precision, device) is wanted
