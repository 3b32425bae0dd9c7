"""What must be set before torch is imported: variables, cache folders, signals, and dying with the front."""

import ctypes
import hashlib
import os
import signal
from pathlib import Path
from typing import Final

from server.adapters.worker.engine import EngineFailed
from server.ports.worker import Start

_PR_SET_PDEATHSIG: Final = 1
TIER_2: Final = "TORCH_TPU_TIER2_COMPILATION_CACHE"
TIER_3: Final = "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT"
DISABLED: Final = "disabled"
HOST_TIER: Final = Path("/dev/shm/torch_tpu_cache")  # noqa: S108  # where torch_tpu keeps it; only counted
COMPILER_OPTIONS: Final = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "TORCH_TPU_INTERNAL_XLA_OPTIONS")


def die_with_front(front_pid: int) -> None:
    """The kernel kills this process when the front ends, however it ends. Raises EngineFailed when it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != front_pid:
        raise EngineFailed("worker: the front process is gone")


def obey_the_front_only() -> None:
    """Ctrl-C reaches the whole process group; when to stop is the front's decision."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def prepare(start: Start, versions: dict[str, str | None]) -> Path:
    """Sets the environment for torch and returns this combination's cache folder."""
    folder = cache_folder(start, versions, _machine())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.update(
        {
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "OMP_NUM_THREADS": str(start.threads),
            "MKL_NUM_THREADS": str(start.threads),
        }
    )
    if start.device == "tpu-emulator" and start.threads == 1:
        # XLA takes all cores by itself; on a TPU these flags mean other things and stay the operator's.
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    if start.device == "tpu-emulator":
        # A program that its plug-in loaded from there and PyTorch saved again does not run after the next start.
        os.environ.pop(TIER_3, None)
        os.environ[TIER_2] = DISABLED
    elif TIER_3 not in os.environ:
        # The folder in shared memory is not checked for who else may write to it; its user is who asks for it.
        os.environ.setdefault(TIER_2, DISABLED)
    return folder


def tiers_in_use() -> bool:
    """Whether torch_tpu keeps programs outside the process, besides PyTorch's cache."""
    return TIER_3 in os.environ or os.environ.get(TIER_2, DISABLED) != DISABLED


def host_tier_files() -> int:
    """Programs in this host's shared memory."""
    return sum(1 for _ in (HOST_TIER / os.environ.get(TIER_2, "default")).glob("*/*.bin"))


def cache_folder(start: Start, versions: dict[str, str | None], cpu: str) -> Path:
    """One folder for each combination that needs programs of its own.

    PyTorch's key of a cached program knows neither torch_tpu's matmul precision nor the CPU that XLA compiled
    for: sharing a folder would bring back another precision's program, or one with unknown instructions.
    """
    parts = (start.device, start.dtype, start.matmul_precision, start.threads, sorted(versions.items()), cpu)
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()
    return Path(start.cache_dir) / f"{start.device}-{start.dtype}-{start.matmul_precision}-{digest}"


def _machine() -> str:
    """The CPU's instructions, and the compiler options that the person set."""
    return "\n".join([_cpu_features(), *(os.environ.get(name, "") for name in COMPILER_OPTIONS)])


def _cpu_features() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith(("flags", "Features"))), os.uname().machine)
