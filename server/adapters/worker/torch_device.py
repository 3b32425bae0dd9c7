"""PyTorch's own devices: the CPU, and an NVIDIA GPU."""

from typing import Any

import torch

from server.adapters.worker.engine import EngineFailed
from server.core.types import DeviceMemory


class _Inductor:
    """What PyTorch's own devices share: eager unless asked, compiled by inductor."""

    emulated = False

    def compiled_by_default(self) -> bool:
        return False

    def compile(self, module: Any) -> Any:
        return compile_static(module, "inductor")

    def ahead(self, module: Any) -> None:
        """Inductor compiles inside the first call."""
        return None

    def compiles(self) -> int:
        return traced_graphs() - cache_hits()

    def tier_hits(self) -> tuple[int, int]:
        return 0, 0

    def seal(self, *, compiled: bool) -> None:
        if compiled:
            torch.compiler.set_stance("fail_on_recompile")

    def flush(self) -> None:
        """Inductor writes its cache before a compile returns."""


class CpuDevice(_Inductor):
    """The CPU. Eager by default also because inductor needs a C++ compiler, which a serving image does not have."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def open(self) -> None:
        torch.set_num_threads(self._threads)

    def torch_name(self) -> str:
        return "cpu"

    def watch_memory(self) -> None: ...

    def peak_memory(self) -> None:
        """Host memory is not counted by bucket."""
        return None

    def memory(self) -> None:
        """What the process holds is for the platform to count."""
        return None

    def versions(self) -> dict[str, str | None]:
        return {"torch": torch.__version__, "torch_tpu": None, "libtpu": None, "topology": None}


class CudaDevice(_Inductor):
    """One NVIDIA GPU, the current one."""

    def open(self) -> None:
        if not torch.cuda.is_available():
            raise EngineFailed(
                "device: got cuda, but PyTorch sees no NVIDIA GPU (no driver, or a build of torch without CUDA)"
            )
        torch.cuda.init()

    def torch_name(self) -> str:
        return "cuda"

    def watch_memory(self) -> None:
        watch_memory()

    def peak_memory(self) -> int | None:
        return peak_memory()

    def memory(self) -> DeviceMemory | None:
        return memory_now()

    def versions(self) -> dict[str, str | None]:
        name = torch.cuda.get_device_name()
        return {"torch": torch.__version__, "torch_tpu": None, "libtpu": None, "topology": name}


def watch_memory() -> None:
    """Of the accelerator that PyTorch uses; a back end without statistics raises, which is no fault of the model."""
    try:
        torch.accelerator.reset_peak_memory_stats()
    except (AttributeError, NotImplementedError, RuntimeError):
        pass


def peak_memory() -> int | None:
    """Zero is what a back end answers that does not count."""
    try:
        return int(torch.accelerator.max_memory_allocated()) or None
    except (AttributeError, NotImplementedError, RuntimeError):
        return None


def memory_now() -> DeviceMemory | None:
    """As ``peak_memory``: what a back end answers that does not count is nothing."""
    peak = peak_memory()
    if peak is None:
        return None
    try:
        used = int(torch.accelerator.memory_allocated())
    except (AttributeError, NotImplementedError, RuntimeError):
        return None
    try:
        limit = int(torch.accelerator.get_memory_info()[1]) or None
    except (AttributeError, NotImplementedError, RuntimeError):
        limit = None
    return DeviceMemory(used, peak, limit)


def compile_static(module: Any, backend: str) -> Any:
    """One program a shape and no graph breaks: whatever cannot be compiled whole fails in warm-up, not in service."""
    return torch.compile(module, backend=backend, fullgraph=True, dynamic=False)


def allow_shapes(count: int) -> None:
    """Raises Dynamo's limit of programs a function (8) above the catalogue; beyond it Dynamo would run eager."""
    limit = count + 8
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, limit)
    torch._dynamo.config.accumulated_recompile_limit = max(torch._dynamo.config.accumulated_recompile_limit, limit)


def traced_graphs() -> int:
    """Graphs that Dynamo traced in this process; each is one compile where a device counts none itself."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def cache_hits() -> int:
    """Programs that came from the compile cache on disk."""
    return int(torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
