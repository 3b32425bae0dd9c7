"""The two servers of a demo: on which device each runs, and what the viewer should know of it."""

from dataclasses import dataclass
from typing import Final, Literal

Role = Literal["baseline", "candidate"]

DEFAULT_BASELINE: Final = "cpu"
DEFAULT_CANDIDATE: Final = "tpu-emulator"


@dataclass(frozen=True, slots=True)
class Device:
    """``name`` is what tables call an arm on it."""

    name: str
    dtype: str
    label: str


DEVICES: Final = {
    "cpu": Device("cpu", "float32", "stands in for the GPU"),
    "cuda": Device("gpu", "float32", "an NVIDIA GPU"),
    "tpu": Device("tpu", "bfloat16", "a TPU chip"),
    "tpu-emulator": Device("tpu", "bfloat16", "emulated: XLA on CPU, not TPU speed or arithmetic"),
}


@dataclass(frozen=True, slots=True)
class Arm:
    """One server: its name in every table, the device it runs on, and how."""

    name: str
    role: Role
    device: str
    dtype: str
    label: str


@dataclass(frozen=True, slots=True)
class Arms:
    """In the order in which they start."""

    baseline: Arm
    candidate: Arm

    @property
    def both(self) -> tuple[Arm, Arm]:
        return self.baseline, self.candidate


def arms_on(baseline: str = DEFAULT_BASELINE, candidate: str = DEFAULT_CANDIDATE) -> Arms:
    """Of two devices of DEVICES; two of one name are told apart."""
    first, second = DEVICES[baseline], DEVICES[candidate]
    other = f"{second.name}-2" if second.name == first.name else second.name
    plain = "this machine's CPU"
    return Arms(
        Arm(first.name, "baseline", baseline, first.dtype, first.label),
        Arm(other, "candidate", candidate, second.dtype, plain if candidate == "cpu" else second.label),
    )


DEFAULT: Final = arms_on()
