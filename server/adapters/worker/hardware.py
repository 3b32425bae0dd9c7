"""Looks for a TPU without any TPU library: reading a few small files takes milliseconds."""

from pathlib import Path
from typing import Final

from server.core.devices import TpuHardware

GOOGLE_VENDOR: Final = "0x1ae0"
# Google's vendor id is also on the virtual disks and network cards of its machines.
STORAGE_AND_NETWORK: Final = ("0x01", "0x02")


def find_tpu(root: Path = Path("/")) -> TpuHardware:
    """Google's PCI functions other than disks and network cards, and accelerator device nodes, below ``root``."""
    pci = tuple(
        device.name
        for device in sorted((root / "sys/bus/pci/devices").glob("*"))
        if _text(device / "vendor") == GOOGLE_VENDOR and not _text(device / "class").startswith(STORAGE_AND_NETWORK)
    )
    nodes = tuple(
        str(node)
        for folder, pattern in (("dev", "accel*"), ("dev/accel", "accel*"), ("dev/vfio", "[0-9]*"))
        for node in sorted((root / folder).glob(pattern))
        if not node.is_dir()
    )
    return TpuHardware(pci, nodes)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
