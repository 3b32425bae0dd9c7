"""XLA's CPU plug-in as the library that torch_tpu opens: checked, opened and bridged in two places.

torch_tpu talks to its device through the PJRT C API, whose entry is a table of function pointers (``PJRT_Api``,
openxla/xla, xla/pjrt/c/pjrt_c_api.h). Two slots of the CPU plug-in's table get a callback of ours:

* ``Client_Create`` is called with an option for TPU host memory that the plug-in refuses: call it without options.
* ``Executable_OutputMemoryKinds`` is not implemented there, and compiled calls need it: answer ``device`` for each
  output.

On x86-64 the struct is: size 8 bytes, extension pointer 8, version 24 (size, extension, major and minor as int),
then function pointers of 8 bytes.
"""

import ctypes
import hashlib
import importlib.util
import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from server.adapters.worker.engine import EngineFailed

PACKAGE: Final = "fastatomstruct_xla_cpu"
LIBRARY: Final = "libpjrt_cpu.so"
SHA256: Final = "0a0fe56ca17be9efc7b942e89e534e5e0ad4a0f1e369b66d27b62184509015b9"
TESTED_VERSION: Final = (0, 106)

_VERSION_AT: Final = 32
_SLOTS_AT: Final = 40
_CLIENT_CREATE, _NUM_OUTPUTS, _OUTPUT_MEMORY_KINDS = 10, 44, 47
_Callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _NumOutputsArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("executable", ctypes.c_void_p),
        ("num_outputs", ctypes.c_size_t),
    )


class _MemoryKindsArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("executable", ctypes.c_void_p),
        ("num_outputs", ctypes.c_size_t),
        ("kinds", ctypes.c_void_p),
        ("kind_sizes", ctypes.c_void_p),
    )


class _ClientCreateArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("options", ctypes.c_void_p),
        ("num_options", ctypes.c_size_t),
    )


def find_library() -> Path:
    """The plug-in's file, found without importing its package. Raises EngineFailed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise EngineFailed("device: got tpu-emulator, but fastatomstruct-xla-cpu is not installed (extra tpu-emulator)")
    return Path(spec.origin).parent / LIBRARY


def check_library(path: Path, expected: str = SHA256) -> None:
    """Raises EngineFailed unless the file is the one that was tested; nothing of it has run by then."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EngineFailed(f"device: the emulator's library cannot be read: {error}") from error
    if found != expected:
        raise EngineFailed(f"device: {path} has SHA-256 {found}, the one that was tested is {expected}; refusing it")


def check_version(found: tuple[int, int]) -> None:
    """Raises EngineFailed unless the PJRT version is the tested one: the slots may lie elsewhere in another."""
    if found != TESTED_VERSION:
        raise EngineFailed(
            f"device: the emulator's library speaks PJRT {found[0]}.{found[1]}, "
            f"tested is {TESTED_VERSION[0]}.{TESTED_VERSION[1]}; refusing it"
        )


@dataclass(frozen=True, slots=True)
class Bridge:
    """What must live as long as the process: the library calls into it."""

    version: tuple[int, int]
    alive: tuple[Any, ...]


def bridge(path: Path) -> Bridge:
    """Opens a checked library and puts our callbacks into its table. Raises EngineFailed."""
    plugin = ctypes.CDLL(str(path))
    plugin.GetPjrtApi.restype = ctypes.c_void_p
    api: int = plugin.GetPjrtApi()
    version = (_int_at(api + _VERSION_AT), _int_at(api + _VERSION_AT + 4))
    check_version(version)
    num_outputs = _Callback(_pointer_at(_slot(api, _NUM_OUTPUTS)))
    client_create = _Callback(_pointer_at(_slot(api, _CLIENT_CREATE)))
    memory_kinds, answers = _answer_memory_kinds(num_outputs)
    create = _create_without_options(client_create)
    _write(_slot(api, _OUTPUT_MEMORY_KINDS), memory_kinds)
    _write(_slot(api, _CLIENT_CREATE), create)
    return Bridge(version, (plugin, num_outputs, client_create, memory_kinds, answers, create))


def _create_without_options(original: Any) -> Any:
    def create(pointer: int) -> int | None:
        _ClientCreateArgs.from_address(pointer).num_options = 0
        result: int | None = original(pointer)
        return result

    return _Callback(create)


def _answer_memory_kinds(num_outputs: Any) -> tuple[Any, Any]:
    """The callback, and the arrays that the library reads after it returned."""
    kind = ctypes.create_string_buffer(b"device")
    arrays: dict[int, tuple[Any, Any]] = {}

    def memory_kinds(pointer: int) -> None:
        args = _MemoryKindsArgs.from_address(pointer)
        asked = _NumOutputsArgs(ctypes.sizeof(_NumOutputsArgs), None, args.executable, 0)
        num_outputs(ctypes.addressof(asked))
        count: int = asked.num_outputs
        if count not in arrays:
            room = max(count, 1)
            arrays[count] = (
                (ctypes.c_void_p * room)(*[ctypes.addressof(kind)] * count),
                (ctypes.c_size_t * room)(*[len(kind.value)] * count),
            )
        kinds, sizes = arrays[count]
        args.num_outputs = count
        args.kinds = ctypes.addressof(kinds)
        args.kind_sizes = ctypes.addressof(sizes)

    return _Callback(memory_kinds), (kind, arrays)


def _slot(api: int, number: int) -> int:
    return api + _SLOTS_AT + 8 * number


def _int_at(address: int) -> int:
    return ctypes.c_int.from_address(address).value


def _pointer_at(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _write(address: int, callback: Any) -> None:
    """One slot. Its page gets back the protection that it had: made writable for this moment only, if it was not.

    The plug-in that was tested builds its table at run time, on a page that it also keeps other data on; making
    that page read-only would end the process at its next write.
    """
    value = ctypes.cast(callback, ctypes.c_void_p).value
    assert value is not None, "a callback has an address"
    before = protection_of(address, Path("/proc/self/maps").read_text(encoding="ascii", errors="replace"))
    _protect(address, before | mmap.PROT_WRITE)
    try:
        ctypes.c_uint64.from_address(address).value = value
    finally:
        _protect(address, before)


def protection_of(address: int, maps: str) -> int:
    """The PROT_ flags of the page of ``address``, from the text of /proc/PID/maps. Raises EngineFailed."""
    for line in maps.splitlines():
        extent, flags = line.split()[:2]
        first, _, last = extent.partition("-")
        if int(first, 16) <= address < int(last, 16):
            known = {"r": mmap.PROT_READ, "w": mmap.PROT_WRITE, "x": mmap.PROT_EXEC}
            return sum(known[flag] for flag in flags if flag in known)
    raise EngineFailed(f"device: the emulator's table at {address:#x} is in no mapped page")


def _protect(address: int, protection: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    page = address & ~(mmap.PAGESIZE - 1)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), protection):
        raise EngineFailed(f"device: the emulator's table cannot be made writable (errno {ctypes.get_errno()})")
