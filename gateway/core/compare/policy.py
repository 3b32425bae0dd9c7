"""Default tolerances by dtype, matmul precision and kind of device.

They are proposals for a plan; the run freezes what the plan says, and nothing loosens it afterwards.
"""

from dataclasses import dataclass
from typing import Final, Literal

from gateway.core.plan import ParityPolicy

DeviceKind = Literal["cpu", "cuda", "tpu"]
EMULATED: Final = "default, measured on the TPU emulator; not on TPU hardware"

# Measured: MiniLM-L6 in bfloat16 against CPU float32 gave cosine 0.998, in float32 at `highest` 1.0000.
_FLOAT32: Final = ParityPolicy(cosine_min=0.9999, source=EMULATED)
_BFLOAT16: Final = ParityPolicy(cosine_min=0.99, source=EMULATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """How an arm computes. ``device`` is the kind of hardware; an emulated TPU is a tpu."""

    dtype: str
    matmul_precision: str
    device: DeviceKind


def default_policy(baseline: Numerics, candidate: Numerics) -> ParityPolicy:
    """The tolerance for a pair of arms: that of the coarser one. ValueError for a dtype without a default."""
    rows = [_row(baseline, "baseline"), _row(candidate, "candidate")]
    return min(rows, key=lambda policy: policy.cosine_min)


def _row(arm: Numerics, name: str) -> ParityPolicy:
    if arm.dtype == "bfloat16":
        return _BFLOAT16
    if arm.dtype != "float32":
        raise ValueError(f"{name}.dtype: '{arm.dtype}' has no default tolerance; float32 or bfloat16, or set one")
    # A TPU multiplies float32 in bfloat16 passes unless told otherwise; `medium` allows that on every device.
    coarse = arm.matmul_precision == "medium" or (arm.device == "tpu" and arm.matmul_precision != "highest")
    return _BFLOAT16 if coarse else _FLOAT32
