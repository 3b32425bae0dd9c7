"""The tolerances of the smoke are those that a plan takes by default."""

from typing import get_args

import pytest

from gateway.core.compare.defaults import BOUNDS, Numerics, default_policy, policy_with
from server.core.tolerance import BFLOAT16, FLOAT32, Tolerance, tolerance_for
from server.core.types import DeviceKind, DtypeName, MatmulPrecision


@pytest.mark.parametrize("ours", [FLOAT32, BFLOAT16])
def test_the_numbers_are_the_gateways(ours: Tolerance) -> None:
    """What passes here is not rolled back there for its arithmetic."""
    theirs = BOUNDS[ours.name]
    assert (ours.cosine_min, ours.length_rel) == (theirs.cosine.min, theirs.cosine.length_rel)
    assert (ours.absolute, ours.relative) == (theirs.elements.abs, theirs.elements.rel)


@pytest.mark.parametrize("device", get_args(DeviceKind))
@pytest.mark.parametrize("precision", get_args(MatmulPrecision))
@pytest.mark.parametrize("dtype", get_args(DtypeName))
def test_the_choice_is_the_gateways(dtype: DtypeName, precision: MatmulPrecision, device: DeviceKind) -> None:
    """An emulated TPU is a tpu there."""
    kind = "tpu" if device == "tpu-emulator" else device
    numerics = Numerics(dtype=dtype, matmul_precision=precision, device=kind)
    ours = tolerance_for(dtype, precision, device)
    assert default_policy(numerics, numerics) == policy_with(BOUNDS[ours.name])
