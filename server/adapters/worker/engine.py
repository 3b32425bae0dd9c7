"""What the worker needs from a device and from a model, as Protocols.

A Device knows how to place, compile and count; a Model is one module with named inputs and outputs. Neither module is
imported by the front.
"""

from collections.abc import Callable
from typing import Any, Protocol

from server.core.signature import ModelSignature
from server.core.types import DeviceMemory, DtypeName


class EngineFailed(Exception):
    """The device or the model cannot be used; the text is for people and names what is at fault."""


class Ahead(Protocol):
    """A module whose compilations may run side by side: ``module`` is called for every batch."""

    module: Any

    def submit(self, call: Callable[[], object]) -> Callable[[], None]:
        """Begins the compilation that ``call`` needs, without its result; what is returned waits for the program."""
        ...


class Device(Protocol):
    """One accelerator, or the CPU."""

    emulated: bool

    def open(self) -> None:
        """Makes the device usable. Raises EngineFailed."""
        ...

    def torch_name(self) -> str:
        """What ``tensor.to`` takes."""
        ...

    def compiled_by_default(self) -> bool: ...

    def compile(self, module: Any) -> Any:
        """The module, compiled for static shapes at its first call of each shape."""
        ...

    def ahead(self, module: Any) -> Ahead | None:
        """As ``compile``, with compilations side by side; None where this device cannot."""
        ...

    def tier_hits(self) -> tuple[int, int]:
        """Programs that came from torch_tpu's caches: in the host's memory, and in the shared folder."""
        ...

    def watch_memory(self) -> None:
        """Begins to watch for ``peak_memory``."""
        ...

    def peak_memory(self) -> int | None:
        """The most bytes that the device held since ``watch_memory``; None where it does not tell."""
        ...

    def memory(self) -> DeviceMemory | None:
        """What it holds now; None where it does not tell."""
        ...

    def compiles(self) -> int:
        """Programs compiled so far in this process, eager ones included where the device counts them."""
        ...

    def seal(self, *, compiled: bool) -> None:
        """From now on a call that would compile fails instead."""
        ...

    def flush(self) -> None:
        """Returns when compile caches are on disk."""
        ...

    def versions(self) -> dict[str, str | None]:
        """torch, torch_tpu, libtpu, topology."""
        ...


class Model(Protocol):
    """A model on the CPU in float32.

    ``module`` takes its inputs by position, in the order of ``signature``, and gives a tensor or a tuple in the order
    of its outputs. Whole numbers may come narrower than the signature says. ``vocabulary``, ``max_length`` and ``dim``
    are of a model that is asked with token ids and gives rows of floats; 0 otherwise.
    """

    module: Any
    signature: ModelSignature
    revision: str
    vocabulary: int
    dim: int
    max_length: int

    def place(self, torch_name: str, dtype: DtypeName) -> Any:
        """The module on a device, its weights in a dtype; what it gives stays as declared. Raises EngineFailed.

        The model on the CPU may be gone then.
        """
        ...
