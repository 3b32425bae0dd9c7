"""Acceptance and warm-up compare every position of every bucket with the CPU."""

from dataclasses import replace
from typing import Any

import pytest

from server.adapters.worker.engine import EngineFailed
from server.core.padding import pad_rows
from server.core.signature import MASK, ModelSignature, TensorSpec, embedding
from server.core.types import Bucket, DeviceMemory, TokenRows
from server.core.warmup import StabilityRule
from server.ports.worker import BucketBegan, BucketWarm, Finished, Lenient, Run, RunFailed, Start, Warmed, WorkerEvent

LENGTHS = (4, 8)
START = Start(
    model_path="/m",
    sha256=None,
    device="cpu",
    emulator_allowed=False,
    dtype="float32",
    matmul_precision="highest",
    compile=False,
    threads=1,
    buckets=tuple(Bucket(batch, length) for length in LENGTHS for batch in (1, 2)),
    stability=StabilityRule(min_calls=2, max_calls=2),
    cache_dir="/c",
    front_pid=7,
)


class Device:
    """The CPU; ``wrong_from`` is a position from which on its answers are not the model's.

    ``counted`` is its own count of compiles, ``sealed`` whether it was told to compile no more.
    """

    emulated = False

    def __init__(self, wrong_from: int | None = None) -> None:
        self._wrong_from = wrong_from
        self.counted = 0
        self.sealed = False
        self.looks = 0

    def open(self) -> None: ...

    def torch_name(self) -> str:
        return "cpu"

    def compiled_by_default(self) -> bool:
        return False

    def compile(self, module: Any) -> Any:
        raise AssertionError("eager was asked for")

    def ahead(self, module: Any) -> None:
        return None

    def compiles(self) -> int:
        return self.counted

    def tier_hits(self) -> tuple[int, int]:
        return 0, 0

    def watch_memory(self) -> None: ...

    def peak_memory(self) -> None:
        return None

    def memory(self) -> DeviceMemory:
        self.looks += 1
        return DeviceMemory(self.looks, 9)

    def seal(self, *, compiled: bool) -> None:
        self.sealed = True

    def flush(self) -> None: ...

    def versions(self) -> dict[str, str | None]:
        return {"torch": "x", "torch_tpu": None, "libtpu": None, "topology": None}

    def spoil(self, ids: Any) -> Any:
        """The ids as this device sees them."""
        if self._wrong_from is not None and ids.shape[1] > self._wrong_from:
            ids = ids.clone()
            ids[:, self._wrong_from :] = 0
        return ids


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch without the backends that load themselves."""
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    import torch

    return torch


def warmed(torch: Any, device: Device, start: Start = START) -> tuple[Any, list[WorkerEvent]]:
    """A session with a model whose vector is the masked mean of its tokens' one-hot rows, and what it said."""
    from server.adapters.worker.session import Session

    class Module(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is not followed by mypy
        def __init__(self) -> None:
            super().__init__()
            self.seen = lambda ids: ids

        def forward(self, ids: Any, mask: Any) -> Any:
            rows = torch.nn.functional.one_hot(self.seen(ids).long(), 50).float() * mask.unsqueeze(-1)
            return torch.nn.functional.normalize(rows.sum(dim=1), dim=1)

    class Model:
        module = Module()
        signature = embedding(50)
        revision, vocabulary, dim, max_length = "rev", 50, 50, 8

        def place(self, torch_name: str, dtype: str) -> Any:
            self.module.seen = device.spoil
            return self.module

    said: list[WorkerEvent] = []
    session = Session(start, device, said.append)
    session.warm(session.load(Model()))
    return session, said


def test_a_right_device_passes_in_every_bucket(torch: Any) -> None:
    """Each bucket is reported once, then the end of the warm-up."""
    _, said = warmed(torch, Device())
    assert sorted(event.timing.bucket for event in said if isinstance(event, BucketWarm)) == sorted(START.buckets)
    assert said[-1] == Warmed()


@pytest.mark.parametrize("wrong_from", [3, 4, 7])
def test_a_device_that_is_wrong_at_late_positions_does_not_pass(torch: Any, wrong_from: int) -> None:
    """The last position of the longest bucket is compared like the first of the shortest."""
    with pytest.raises(EngineFailed, match="differs from the CPU"):
        warmed(torch, Device(wrong_from))


def test_rows_of_both_lengths_take_turns_in_a_batch_of_one(torch: Any) -> None:
    """A full row shows late positions, a half row shows padding."""
    from server.adapters.worker.probe import Probe

    class Model:
        signature = embedding(2)
        revision, vocabulary, dim, max_length = "rev", 50, 2, 8

        @staticmethod
        def module(ids: Any, mask: Any) -> Any:
            return torch.ones(1, 2)

    probe = Probe(START, Model())  # type: ignore[arg-type]  # its module is only called
    for length in LENGTHS:
        kept = [int(probe.inputs(Bucket(1, length), turn)[MASK].array().sum()) for turn in range(3)]
        assert kept == [length, length // 2, length]


def test_a_model_that_the_catalogue_does_not_fit_fails_the_load_with_every_reason(torch: Any) -> None:
    """Dimensions without a name, and names that nobody uses."""
    from server.adapters.worker.session import Session

    class Model:
        signature = ModelSignature((TensorSpec("pixels", "FP32", (-1, 3, -1, 8)),), (TensorSpec("y", "FP32", (-1, 2)),))

    with pytest.raises(EngineFailed, match=r"inputs\.pixels\.shape: got \[-1, 3, -1, 8\].*catalogue\.length: no input"):
        Session(START, Device(), lambda event: None).load(Model())  # type: ignore[arg-type]  # refused by its signature


def lenient(largest: Bucket) -> Start:
    return replace(START, lenient=Lenient(largest, programs=6))


def run(bucket: Bucket) -> Run:
    return Run(1, bucket, pad_rows([TokenRows([[3] * bucket.length])], bucket))


@pytest.mark.parametrize(("start", "sealed"), [(START, True), (lenient(Bucket(2, 8)), False)])
def test_only_a_strict_server_is_sealed(torch: Any, start: Start, sealed: bool) -> None:
    """A lenient one is ready after its declared buckets, too, and goes on compiling."""
    device = Device()
    _, said = warmed(torch, device, start)
    assert said[-1] == Warmed()
    assert device.sealed is sealed


def test_a_bound_longer_than_the_model_fails_the_load_with_both_numbers(torch: Any) -> None:
    """There is no position for its last token."""
    with pytest.raises(EngineFailed, match=r"largest\.length: got 9, this model takes at most 8 tokens"):
        warmed(torch, Device(), lenient(Bucket(2, 9)))


@pytest.mark.parametrize(("compiled", "traced", "reported"), [(0, 0, 0), (1, 1, 1), (0, 1, 1), (2, 1, 2)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_run_reports_what_it_compiled_or_loaded(
    torch: Any, compiled: int, traced: int, reported: int, fails: bool
) -> None:
    """A program from the cache on disk is a graph that no counter of compiles shows; of both counts the larger one."""
    device = Device()
    session, _ = warmed(torch, device, lenient(Bucket(2, 8)))
    module = session._engine.module

    def call(*given: Any) -> Any:
        device.counted += compiled
        torch._dynamo.utils.counters["stats"]["unique_graphs"] += traced
        if fails:
            raise RuntimeError("out of memory")
        return module(*given)

    session._engine.module = call
    event = session.run(run(Bucket(1, 6)))
    assert isinstance(event, RunFailed if fails else Finished)
    assert event.compiles == reported


@pytest.mark.parametrize(("given", "programs"), [(None, 4), (Lenient(Bucket(2, 8), programs=90), 90)])
def test_dynamo_may_keep_every_program_that_there_can_be(
    torch: Any, monkeypatch: pytest.MonkeyPatch, given: Lenient | None, programs: int
) -> None:
    """Beyond its limit it would run eager without a word."""
    from server.adapters.worker import session as session_module

    allowed: list[int] = []
    monkeypatch.setattr(session_module, "allow_shapes", allowed.append)
    device = Device()
    device.compile = lambda module: module  # type: ignore[method-assign]  # the model need not be compiled here
    warmed(torch, device, replace(START, compile=True, lenient=given))
    assert allowed == [programs]


def test_a_precision_that_the_model_changes_fails_the_start(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs would keep the one they were compiled with, and the identity would name the other."""
    from server.adapters.worker import session as session_module

    monkeypatch.setattr(session_module.torch, "get_float32_matmul_precision", lambda: "medium")
    with pytest.raises(EngineFailed, match=r"matmul_precision: was set to highest .* is medium"):
        warmed(torch, Device())


def test_memory_is_looked_at_after_a_batch_and_not_after_each(torch: Any) -> None:
    """The allocator's statistics cost time that the next batch waits for."""
    device = Device()
    session, _ = warmed(torch, device)
    assert session.memory == DeviceMemory(1, 9)
    session._memory_due = float("inf")
    session.run(run(Bucket(1, 4)))
    assert session.memory == DeviceMemory(1, 9)
    session._memory_due = 0.0
    session.run(run(Bucket(1, 4)))
    assert session.memory == DeviceMemory(2, 9)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_run_that_must_compile_is_told_before(torch: Any, monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """Until its shape ran once; of declared shapes, and without a compiler, there is nothing to tell."""
    from server.adapters.worker import session as session_module

    monkeypatch.setattr(session_module, "allow_shapes", lambda programs: None)
    device = Device()
    device.compile = lambda module: module  # type: ignore[method-assign]  # the model need not be compiled here
    session, said = warmed(torch, device, replace(lenient(Bucket(2, 8)), compile=compiled))
    before = len(said)
    shapes = [Bucket(1, 6), Bucket(1, 8), Bucket(1, 6)]
    module = session._engine.module
    session._engine.module = lambda *given: 1 / 0
    session.run(run(shapes[0]))
    session._engine.module = module
    for shape in shapes:
        session.run(run(shape))
    assert said[before:] == [BucketBegan(Bucket(1, 6))] * (2 if compiled else 0)
