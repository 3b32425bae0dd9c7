"""torch_tpu without a TPU: the same software path, with XLA's CPU plug-in in place of libtpu.

For tests and demonstrations only. It shows tracing, compiling, caching and guarding as they are; it shows
neither a TPU's speed nor its arithmetic, and everything that reports a device says so.
"""

import os
from pathlib import Path

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.hardware import find_tpu
from server.adapters.worker.pjrt import Bridge, bridge, check_library, find_library
from server.adapters.worker.tpu import TpuDevice
from server.core.devices import refuse_device


class EmulatedTpuDevice(TpuDevice):
    """A TpuDevice on the CPU. ``allowed`` is the person's word that this is a test."""

    emulated = True

    def __init__(self, *, allowed: bool, root: Path = Path("/")) -> None:
        self._allowed = allowed
        self._root = root
        self._bridge: Bridge | None = None

    def open(self) -> None:
        """Refuses before the library is touched; then checks, opens and bridges it. Raises EngineFailed."""
        refusal = refuse_device("tpu-emulator", find_tpu(self._root), emulator_allowed=self._allowed)
        if refusal is not None:
            raise EngineFailed(refusal)
        library = find_library()
        check_library(library)
        os.environ["TPU_LIBRARY_PATH"] = str(library)
        self._bridge = bridge(library)
        super().open()

    def versions(self) -> dict[str, str | None]:
        versions = super().versions()
        pjrt = "?" if self._bridge is None else ".".join(map(str, self._bridge.version))
        return {**versions, "libtpu": None, "topology": f"emulator: XLA CPU plug-in, PJRT {pjrt}"}
