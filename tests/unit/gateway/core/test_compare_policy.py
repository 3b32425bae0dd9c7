"""Default tolerances."""

import pytest

from gateway.core.compare.policy import DeviceKind, Numerics, default_policy

CPU = Numerics(dtype="float32", matmul_precision="highest", device="cpu")


@pytest.mark.parametrize(
    ("dtype", "precision", "device", "cosine"),
    [
        ("float32", "highest", "tpu", 0.9999),
        ("float32", "high", "tpu", 0.99),
        ("float32", "default", "tpu", 0.99),
        ("float32", "highest", "cuda", 0.9999),
        ("float32", "high", "cuda", 0.9999),
        ("float32", "medium", "cuda", 0.99),
        ("float32", "highest", "cpu", 0.9999),
        ("bfloat16", "highest", "tpu", 0.99),
        ("bfloat16", "highest", "cuda", 0.99),
    ],
)
def test_defaults(dtype: str, precision: str, device: DeviceKind, cosine: float) -> None:
    """float32 at full precision is held to four nines, bfloat16 and what multiplies in it to two."""
    candidate = Numerics(dtype=dtype, matmul_precision=precision, device=device)
    assert default_policy(CPU, candidate).cosine_min == cosine


def test_the_coarser_arm_decides_on_either_side() -> None:
    """A bfloat16 baseline cannot be matched more closely than it computes."""
    coarse = Numerics(dtype="bfloat16", matmul_precision="highest", device="tpu")
    assert default_policy(coarse, CPU) == default_policy(CPU, coarse)
    assert default_policy(coarse, CPU).cosine_min == 0.99


def test_defaults_say_where_they_were_measured() -> None:
    """No default passes for a figure measured on hardware."""
    assert default_policy(CPU, CPU).source == "default, measured on the TPU emulator; not on TPU hardware"


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_dtype_without_a_default_needs_a_policy(side: str) -> None:
    """There is no guess for a dtype that was not measured."""
    odd = Numerics(dtype="float8", matmul_precision="highest", device="tpu")
    arms = {"baseline": CPU, "candidate": CPU} | {side: odd}
    with pytest.raises(ValueError, match=rf"{side}.dtype: 'float8' has no default tolerance"):
        default_policy(arms["baseline"], arms["candidate"])
