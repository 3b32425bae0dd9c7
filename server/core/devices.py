"""Which device may be used: decided from what the machine shows, before anything heavy is imported."""

from dataclasses import dataclass

from server.core.types import DeviceKind

CHOICES = "cpu, cuda, tpu, or tpu-emulator for tests"


@dataclass(frozen=True, slots=True)
class TpuHardware:
    """What was found: PCI functions of Google's vendor id, and device nodes that are Google's."""

    pci: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        return bool(self.pci or self.nodes)


def refuse_device(kind: DeviceKind, hardware: TpuHardware, *, emulator_allowed: bool) -> str | None:
    """One sentence for the person who started the server, or None when the device may be tried.

    Asking libtpu itself would take minutes of silence on a machine without a TPU: it looks for the cloud's
    metadata server.
    """
    if kind == "tpu" and not hardware.present:
        return (
            "device: got tpu, but this machine shows no TPU (no PCI device of vendor 0x1ae0, no /dev/accel* of it); "
            f"the choices are {CHOICES}"
        )
    if kind == "tpu-emulator" and not emulator_allowed:
        return (
            "device: got tpu-emulator, which is for tests and demonstrations only; "
            "set CANARY_ALLOW_EMULATOR=1 to say that this is one"
        )
    if kind == "tpu-emulator" and hardware.present:
        found = ", ".join(hardware.pci + hardware.nodes)
        return f"device: got tpu-emulator, but this machine has TPU hardware ({found}); use device tpu"
    return None
