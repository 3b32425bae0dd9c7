"""The emulator's library is checked before it is opened."""

import hashlib
import mmap
from pathlib import Path

import pytest

from server.adapters.worker import pjrt
from server.adapters.worker.engine import EngineFailed


def test_another_file_than_the_tested_one_is_refused(tmp_path: Path) -> None:
    """Both digests are named; nothing of the file has run by then."""
    library = tmp_path / "libpjrt_cpu.so"
    library.write_bytes(b"not the library")
    with pytest.raises(EngineFailed, match=hashlib.sha256(b"not the library").hexdigest()):
        pjrt.check_library(library)


def test_the_tested_file_passes(tmp_path: Path) -> None:
    """The digest alone decides."""
    library = tmp_path / "library.so"
    library.write_bytes(b"bytes")
    pjrt.check_library(library, hashlib.sha256(b"bytes").hexdigest())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The sentence names the path."""
    with pytest.raises(EngineFailed, match="cannot be read"):
        pjrt.check_library(tmp_path / "absent.so")


def test_the_installed_library_is_the_tested_one() -> None:
    """A new build of the package needs a new look at its table first."""
    pjrt.check_library(pjrt.find_library())


@pytest.mark.parametrize("version", [(0, 105), (0, 107), (1, 106)])
def test_an_untested_pjrt_version_is_refused(version: tuple[int, int]) -> None:
    """In another version the two slots may lie elsewhere."""
    with pytest.raises(EngineFailed, match=r"tested is 0\.106"):
        pjrt.check_version(version)


def test_the_tested_pjrt_version_passes() -> None:
    """Exactly this one."""
    pjrt.check_version((0, 106))


MAPS = """\
1000-2000 r--p 00000000 08:01 42 /lib/x.so
2000-3000 rw-p 00001000 08:01 42 /lib/x.so
3000-4000 r-xp 00002000 08:01 42 /lib/x.so
"""


@pytest.mark.parametrize(
    ("address", "flags"),
    [
        (0x1000, mmap.PROT_READ),
        (0x1FFF, mmap.PROT_READ),
        (0x2000, mmap.PROT_READ | mmap.PROT_WRITE),
        (0x3FF8, mmap.PROT_READ | mmap.PROT_EXEC),
    ],
)
def test_a_pages_protection_is_read_from_the_map(address: int, flags: int) -> None:
    """The page gets back exactly what it had."""
    assert pjrt.protection_of(address, MAPS) == flags


def test_an_address_in_no_page_is_refused() -> None:
    """A wrong pointer must not be written to."""
    with pytest.raises(EngineFailed, match="no mapped page"):
        pjrt.protection_of(0x4000, MAPS)
