"""Looking for a TPU in small files."""

from pathlib import Path

from server.adapters.worker.hardware import find_tpu


def pci(root: Path, name: str, vendor: str, kind: str) -> None:
    folder = root / "sys/bus/pci/devices" / name
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")


def test_nothing_is_found_on_an_empty_machine(tmp_path: Path) -> None:
    """Missing folders are no error."""
    assert not find_tpu(tmp_path).present


def test_a_google_accelerator_is_found(tmp_path: Path) -> None:
    """Its PCI address is what people are shown."""
    pci(tmp_path, "0000:00:04.0", "0x10de", "0x030200")
    pci(tmp_path, "0000:00:05.0", "0x1ae0", "0xff0000")
    found = find_tpu(tmp_path)
    assert found.present
    assert found.pci == ("0000:00:05.0",)


def test_googles_virtual_disk_and_network_are_no_tpu(tmp_path: Path) -> None:
    """They carry the same vendor id."""
    pci(tmp_path, "0000:00:03.0", "0x1ae0", "0x010802")
    pci(tmp_path, "0000:00:04.0", "0x1ae0", "0x020000")
    assert not find_tpu(tmp_path).present


def test_an_accelerator_node_is_found(tmp_path: Path) -> None:
    """Containers may show the node only."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/accel0").write_text("")
    found = find_tpu(tmp_path)
    assert found.present
    assert found.nodes == (str(tmp_path / "dev/accel0"),)


def test_a_node_of_the_shared_accelerator_class_counts_with_googles_vendor_only(tmp_path: Path) -> None:
    """Other vendors' NPUs have one too, and hosts without a TPU must not be taken for one."""
    (tmp_path / "dev/accel").mkdir(parents=True)
    for name, vendor in (("accel0", "0x8086"), ("accel1", "0x1ae0"), ("accel2", None)):
        (tmp_path / "dev/accel" / name).write_text("")
        if vendor is not None:
            device = tmp_path / "sys/class/accel" / name / "device"
            device.mkdir(parents=True)
            (device / "vendor").write_text(vendor + "\n")
    assert find_tpu(tmp_path).nodes == (str(tmp_path / "dev/accel/accel1"),)


def test_a_vfio_node_counts_beside_a_google_function_only(tmp_path: Path) -> None:
    """Any passed-through card has one."""
    (tmp_path / "dev/vfio").mkdir(parents=True)
    (tmp_path / "dev/vfio/0").write_text("")
    (tmp_path / "dev/vfio/vfio").write_text("")
    assert not find_tpu(tmp_path).present
    pci(tmp_path, "0000:00:05.0", "0x1ae0", "0xff0000")
    assert find_tpu(tmp_path).nodes == (str(tmp_path / "dev/vfio/0"),)
