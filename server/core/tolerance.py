"""How far a device's answers may lie from the CPU's in float32: the numbers that a plan takes by default.

They are the gateway's defaults for the same dtype, precision and device, so that a model which passes here is not
rolled back there for its arithmetic; a test holds the two tables together. None was measured on TPU hardware.
"""

from dataclasses import dataclass
from typing import Final

from server.core.types import DeviceKind, DtypeName, MatmulPrecision


@dataclass(frozen=True, slots=True)
class Tolerance:
    """For every row: cosine at least ``cosine_min``, length within ``length_rel``. For every element of raw tensors:
    at most ``absolute`` + ``relative`` x |reference| away.
    """

    name: str
    cosine_min: float
    length_rel: float
    absolute: float
    relative: float

    def __str__(self) -> str:
        return (
            f"{self.name}: cosine >= {self.cosine_min:g}, length within {self.length_rel:g}, "
            f"elements within {self.absolute:g} + {self.relative:g} x |reference|"
        )


FLOAT32: Final = Tolerance("float32", 0.9999, 0.001, 1e-3, 1e-3)
BFLOAT16: Final = Tolerance("bfloat16", 0.99, 0.02, 2e-2, 2e-2)


def tolerance_for(dtype: DtypeName, precision: MatmulPrecision, device: DeviceKind) -> Tolerance:
    """A TPU multiplies float32 in bfloat16 passes unless told otherwise; ``medium`` allows that on every device."""
    tpu = device in ("tpu", "tpu-emulator")
    coarse = dtype == "bfloat16" or precision == "medium" or (tpu and precision != "highest")
    return BFLOAT16 if coarse else FLOAT32
