"""What weights are, as one digest: SHA-256 over names, dtypes, shapes and bytes of all tensors, in order of name.

The same tensors give the same digest in one file or in shards, and whatever a converter wrote beside them. It is
computed from the safetensors files themselves, a piece at a time and without torch, and kept in the server's own cache
folder under what the file system says of the files, so that a restart need not read gigabytes again.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from server.adapters.worker.engine import EngineFailed

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
MAX_HEADER: Final = 100 * 1024 * 1024
PIECE: Final = 4 * 1024 * 1024
_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    end: int


def weight_files(folder: Path) -> tuple[Path, ...]:
    """model.safetensors, or the shards that its index names. Raises EngineFailed: nothing else is read."""
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file() or not index.is_file():
        return (single,)
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineFailed(f"model.path: {index} cannot be read: {error!r}") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise EngineFailed(f"model.path: {index} names {name!r}, allowed are .safetensors files of that folder")
    return tuple(folder / name for name in names)


def pin(files: Sequence[Path], expected: str | None) -> None:
    """Raises EngineFailed unless the one file has this SHA-256, as ``sha256sum`` prints it; None asks for nothing."""
    if expected is None:
        return
    if len(files) != 1:
        raise EngineFailed(f"model.sha256: is of one file, this model has {len(files)}; leave it out")
    found = file_digest(files[0])
    if found != expected:
        raise EngineFailed(f"model.sha256: {files[0]} has {found}, the configuration says {expected}")


def file_digest(path: Path) -> str:
    """SHA-256 of a file. Raises EngineFailed."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EngineFailed(f"model.path: {path} cannot be read: {error}") from error


def weights_digest(files: Sequence[Path], cache: Path) -> str:
    """The digest of all tensors of the files; ``cache`` is a folder of this user alone. Raises EngineFailed."""
    key = "|".join(_state(file) for file in files)
    kept = cache / "digests" / hashlib.sha256(key.encode()).hexdigest()
    try:
        found = kept.read_text(encoding="ascii")
        if len(found) == 64:
            return found
    except (OSError, UnicodeDecodeError):
        pass
    digest = hashlib.sha256()
    for tensor in sorted((tensor for file in files for tensor in _tensors(file)), key=lambda tensor: tensor.name):
        digest.update(_entry(tensor.name, tensor.dtype, tensor.shape))
        for piece in _bytes(tensor):
            digest.update(piece)
    found = digest.hexdigest()
    _keep(kept, found)
    return found


def _entry(name: str, dtype: str, shape: tuple[int, ...]) -> bytes:
    """A line of JSON, so that no name can look like another one with another shape."""
    return json.dumps([name, dtype, list(shape)], ensure_ascii=True).encode() + b"\n"


def _state(file: Path) -> str:
    try:
        state = file.stat()
    except OSError as error:
        raise EngineFailed(f"model.path: {file} cannot be read: {error}") from error
    return f"{file.resolve()} {state.st_dev} {state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"


def _tensors(file: Path) -> list[_Tensor]:
    """The header of one safetensors file: 8 bytes of length, then JSON. Raises EngineFailed."""
    try:
        with file.open("rb") as stream:
            (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
            if length > MAX_HEADER:
                raise ValueError(f"a header of {length} bytes, at most {MAX_HEADER} are allowed")
            header = json.loads(stream.read(length))
            start, size = _LENGTH.size + length, file.stat().st_size
        tensors = [_tensor(file, name, entry, start) for name, entry in header.items() if name != "__metadata__"]
        for tensor in tensors:
            if not start <= tensor.begin <= tensor.end <= size:
                raise ValueError(f"tensor {tensor.name!r} lies outside of the file")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise EngineFailed(f"model.path: {file} is no readable safetensors file: {error}") from error
    return tensors


def _tensor(file: Path, name: str, entry: Any, start: int) -> _Tensor:
    begin, end = entry["data_offsets"]
    shape = tuple(int(size) for size in entry["shape"])
    return _Tensor(name, str(entry["dtype"]), shape, file, start + int(begin), start + int(end))


def _bytes(tensor: _Tensor) -> Iterator[bytes]:
    try:
        with tensor.file.open("rb") as stream:
            stream.seek(tensor.begin)
            left = tensor.end - tensor.begin
            while left:
                piece = stream.read(min(PIECE, left))
                if not piece:
                    raise EngineFailed(f"model.path: {tensor.file} ends within tensor {tensor.name!r}")
                left -= len(piece)
                yield piece
    except OSError as error:
        raise EngineFailed(f"model.path: {tensor.file} cannot be read: {error}") from error


def _keep(path: Path, digest: str) -> None:
    """Without a cache the next start reads the weights again, and that is all."""
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.write_text(digest, encoding="ascii")
        partial.replace(path)
    except OSError:
        pass
