"""Looks for a TPU without any TPU library: reading a few small files takes milliseconds."""

import os
from pathlib import Path
from typing import Final

from server.core.devices import TpuHardware

GOOGLE_VENDOR: Final = "0x1ae0"
# Google's vendor id is also on the virtual disks and network cards of its machines.
STORAGE_AND_NETWORK: Final = ("0x01", "0x02")


def find_tpu(root: Path = Path("/")) -> TpuHardware:
    """Google's PCI functions other than disks and network cards, and Google's device nodes, below ``root``.

    ``/dev/accelN`` is made by Google's own driver. ``/dev/accel/accelN`` belongs to the kernel's accelerator class,
    which other vendors use as well (NPUs of notebooks), so its vendor is looked up. A VFIO node says nothing about
    the card behind it: any card that is passed through has one, and it counts beside a PCI function only.
    """
    pci = tuple(
        device.name
        for device in sorted((root / "sys/bus/pci/devices").glob("*"))
        if _text(device / "vendor") == GOOGLE_VENDOR and not _text(device / "class").startswith(STORAGE_AND_NETWORK)
    )
    own = _nodes(root / "dev", "accel*")
    shared = [
        node
        for node in _nodes(root / "dev/accel", "accel*")
        if _text(root / "sys/class/accel" / node.name / "device/vendor") == GOOGLE_VENDOR
    ]
    passed_through = _nodes(root / "dev/vfio", "[0-9]*") if pci else []
    return TpuHardware(pci, tuple(map(str, [*own, *shared, *passed_through])))


def slice_name() -> str | None:
    """Accelerator type and topology as GKE tells them to a container on a TPU node."""
    return " ".join(filter(None, map(os.environ.get, ("TPU_ACCELERATOR_TYPE", "TPU_TOPOLOGY")))) or None


def _nodes(folder: Path, pattern: str) -> list[Path]:
    return [node for node in sorted(folder.glob(pattern)) if not node.is_dir()]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
