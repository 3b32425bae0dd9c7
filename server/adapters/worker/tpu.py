"""A TPU through torch_tpu. Its private names are used here only, each behind a check that it is there."""

import importlib.metadata
from collections.abc import Callable
from typing import Any

import torch

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.environment import host_tier_files, tiers_in_use
from server.adapters.worker.torch_device import (
    compile_static,
    memory_now,
    peak_memory,
    traced_graphs,
    watch_memory,
)
from server.core.types import DeviceMemory


class TpuDevice:
    """One TPU chip. The process holds it alone, and torch_tpu allows one device a process."""

    emulated = False
    _host_files = 0

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
        self._host_files = host_tier_files()
        init("tpu")

    def torch_name(self) -> str:
        return "tpu"

    def compiled_by_default(self) -> bool:
        return True

    def compile(self, module: Any) -> Any:
        return compile_static(module, "tpu")

    def ahead(self, module: Any) -> "Parallel | None":
        """Not with torch_tpu's own caches: which program came from where could not be told any more."""
        if tiers_in_use():
            return None
        try:
            from torch_tpu._internal.compile import AsyncCompilationSubmitted, resolve_compilations
        except ImportError:
            return None
        return Parallel(module, AsyncCompilationSubmitted, resolve_compilations)

    def tier_hits(self) -> tuple[int, int]:
        """A program that was asked for, was not in memory and was not compiled came from outside this process.

        The host's cache keeps a copy of what comes from the shared folder; so many files more are so many from there.
        """
        stats = _private("_get_cache_stats")
        if stats is None:
            return 0, 0
        now = stats()
        outside = int(now.num_cache_reqs) - int(now.num_cache_hits) - int(now.num_compilations)
        copied = max(0, host_tier_files() - self._host_files - int(now.num_compilations))
        shared = min(max(0, outside), copied)
        return max(0, outside) - shared, shared

    def watch_memory(self) -> None:
        watch_memory()

    def peak_memory(self) -> int | None:
        return peak_memory()

    def memory(self) -> DeviceMemory | None:
        return memory_now()

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


class Parallel:
    """An Ahead (see engine.py): the first call of a shape submits its compilation and raises instead of running."""

    def __init__(self, module: Any, submitted: type[Exception], resolve: Callable[[list[Any]], object]) -> None:
        self.module = torch.compile(
            module, backend="tpu", fullgraph=True, dynamic=False, options={"async_compile": True}
        )
        self._submitted = submitted
        self._resolve = resolve

    def submit(self, call: Callable[[], object]) -> Callable[[], None]:
        """A program from PyTorch's cache is there at once: then nothing is waited for."""
        try:
            call()
        except self._submitted as waiting:
            artifact = getattr(waiting, "artifact", None)
            if artifact is not None:
                return lambda: self._wait(artifact)
        return lambda: None

    def _wait(self, artifact: Any) -> None:
        try:
            self._resolve([artifact])
        except Exception as error:  # XLA raises many kinds; the person needs the text
            raise EngineFailed(f"warm-up: a program does not compile: {error}") from error


def version_of(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _private(name: str) -> Any:
    return getattr(torch.tpu, name, None)
