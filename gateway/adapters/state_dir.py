"""The state directory: private, and held by exactly one control process."""

import fcntl
import os
import stat
from pathlib import Path

from gateway.ports import StateDirError

STORE_FILE = "canary.sqlite"
MOUNTS = Path("/proc/self/mountinfo")
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs"}
)


class StateDir:
    """A private directory held by exactly one control process. Raises StateDirError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _require_private(path)
        self._lock = _lock(path / "lock")

    def release(self) -> None:
        """Gives the directory up; the lock also falls when the process dies."""
        os.close(self._lock)

    def write_private(self, name: str, content: str) -> Path:
        """Writes a file that only its owner reads (mode 0600), atomically."""
        target, fresh = self.path / name, self.path / f".{name}.new"
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
        return target

    def read_private(self, name: str) -> str | None:
        """The content of a private file, None when it does not exist."""
        path = self.path / name
        if not path.exists() and not path.is_symlink():
            return None
        require_private_file(path)
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise StateDirError(f"{path} is not text; remove the file to have it made again") from error


def store_to_read(directory: Path) -> Path:
    """The store of a state directory, for who only reads it. StateDirError where a gateway would not start on it."""
    _require_itself(directory)
    store = directory / STORE_FILE
    if store.exists() or store.is_symlink():
        require_private_file(store)
    return store


def _require_itself(path: Path) -> None:
    if path.is_symlink():
        raise StateDirError(f"state_dir: {path} is a symbolic link; name the directory itself")


def _require_private(path: Path) -> None:
    _require_itself(path)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateDirError(f"state_dir: {path} cannot be made: {error.strerror}") from error
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise StateDirError(f"state_dir: {path} has mode {mode:04o}; only its owner may enter (chmod 0700)")
    kind = file_system(path, MOUNTS.read_text())
    if kind in NETWORK_FILE_SYSTEMS:
        raise StateDirError(f"state_dir: {path} is on {kind}; locks and SQLite need a local file system")


def file_system(path: Path, mounts: str) -> str:
    """The type of file system that holds ``path``, from the text of /proc/self/mountinfo; empty when not found."""
    found, longest = "", -1
    resolved = path.resolve()
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if resolved.is_relative_to(point) and len(point.parts) > longest:
            found, longest = after.split()[0], len(point.parts)
    return found


def require_private_file(path: Path) -> None:
    """StateDirError when ``path`` is a symbolic link or open to group or world."""
    if path.is_symlink():
        raise StateDirError(f"{path} is a symbolic link; state files must be plain files")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise StateDirError(f"{path} has mode {mode:04o}; only its owner may read it (chmod 0600)")


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(handle)
        raise StateDirError(
            f"state_dir: {path.parent} is in use by process {holder}; one control process per state directory"
        ) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle
