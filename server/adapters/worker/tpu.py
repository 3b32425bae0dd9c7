"""A TPU through torch_tpu. Its private names are used here only, each behind a check that it is there."""

import importlib.metadata
from typing import Any

import torch

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.torch_device import compile_static, traced_graphs


class TpuDevice:
    """One TPU chip. The process holds it alone, and torch_tpu allows one device a process."""

    emulated = False

    def open(self) -> None:
        """Loads torch_tpu, which is not autoloaded here, and takes the chip."""
        try:
            from torch_tpu import _loader
        except ImportError as error:
            raise EngineFailed(
                f"device: got tpu, but torch_tpu does not load: {error}; install the extra tpu"
            ) from error
        init = getattr(_loader, "_init_device", None)
        if init is None:
            raise EngineFailed("device: this torch_tpu has no _loader._init_device; version 0.2.0 was tested")
        init("tpu")

    def torch_name(self) -> str:
        return "tpu"

    def compiled_by_default(self) -> bool:
        return True

    def compile(self, module: Any) -> Any:
        return compile_static(module, "tpu")

    def compiles(self) -> int:
        """XLA programs, those of eager operations included; without the counter, traced graphs."""
        stats = _private("_get_cache_stats")
        return traced_graphs() if stats is None else int(stats().num_compilations)

    def seal(self, *, compiled: bool) -> None:
        """Both guards: with many shapes the stance alone let an unseen shape through, and eager slices compiled."""
        if compiled:
            torch.compiler.set_stance("fail_on_recompile")
        cache_only = _private("_set_cache_only")
        if cache_only is None:
            raise EngineFailed("device: this torch_tpu has no torch.tpu._set_cache_only; version 0.2.0 was tested")
        cache_only(True)

    def flush(self) -> None:
        """Waits for torch_tpu's background writer; an early exit would lose the cache."""
        from torch_tpu._internal.compile import _backend

        saves = getattr(_backend, "_cache_saves_manager", None)
        if saves is not None:
            saves.flush()

    def versions(self) -> dict[str, str | None]:
        return {
            "torch": torch.__version__,
            "torch_tpu": version_of("torch_tpu"),
            "libtpu": version_of("libtpu"),
            "topology": self._name(),
        }

    def _name(self) -> str | None:
        try:
            return str(torch.tpu.get_device_name())
        except Exception:  # an unknown generation raises; the name is for people only
            return None


def version_of(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _private(name: str) -> Any:
    return getattr(torch.tpu, name, None)
