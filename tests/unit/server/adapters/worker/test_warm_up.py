"""Where each bucket's program came from, what the warm-up cost, and what is kept of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.adapters.worker.record import NAME, Record
from server.core.acceptance import Acceptance
from server.core.tensors import Tensors
from server.core.types import Bucket, BucketTiming
from server.core.warmup import StabilityRule, cache_gain
from server.ports.worker import BucketBegan, BucketWarm, Start, WorkerEvent

BUCKETS = (Bucket(1, 4), Bucket(2, 4))
START = Start(
    model_path="/m",
    sha256=None,
    device="tpu",
    emulator_allowed=False,
    dtype="float32",
    matmul_precision="highest",
    compile=None,
    threads=1,
    buckets=BUCKETS,
    stability=StabilityRule(min_calls=2, max_calls=2),
    cache_dir="/c",
    front_pid=7,
)


class Device:
    """Counters that a test moves. ``first`` is what happens at the first call of a bucket."""

    def __init__(self, first: Callable[["Device"], None] = lambda device: None) -> None:
        self.first = first
        self.compiled = self.host = self.shared = self.pytorch = 0
        self.memory: int | None = None
        self._seen: set[Bucket] = set()

    def call(self, inputs: Tensors, bucket: Bucket) -> Tensors:
        if bucket not in self._seen:
            self._seen.add(bucket)
            self.first(self)
        return {}

    def compiles(self) -> int:
        return self.compiled

    def tier_hits(self) -> tuple[int, int]:
        return self.host, self.shared

    def watch_memory(self) -> None:
        self.memory = None

    def peak_memory(self) -> int | None:
        return self.memory


class Checks:
    """Accepts everything."""

    def inputs(self, bucket: Bucket, turn: int) -> Tensors:
        return {}

    def check(self, outputs: Tensors, bucket: Bucket, turn: int) -> Acceptance:
        return Acceptance(True, 1.0, 0.0, 0.9)


class Ahead:
    """Compilations that end when they are waited for; ``cached`` buckets need none."""

    module = None

    def __init__(self, device: Device, cached: tuple[Bucket, ...] = ()) -> None:
        self.log: list[str] = []
        self._device = device
        self._cached = cached
        self._order = sorted(BUCKETS, key=lambda bucket: bucket.cells, reverse=True)

    def submit(self, call: Callable[[], object]) -> Callable[[], None]:
        bucket = self._order[len(self.log)]
        self.log.append(f"submit {bucket}")
        if bucket in self._cached:
            self._device.pytorch += 1
            return lambda: None
        return lambda: self._compile(bucket)

    def _compile(self, bucket: Bucket) -> None:
        self._device.compiled += 1
        self.log.append(f"wait {bucket}")


def warm(
    monkeypatch: pytest.MonkeyPatch,
    device: Device,
    *,
    ahead: Ahead | None = None,
    compiled: bool = True,
    record: Record | None = None,
    said: list[WorkerEvent] | None = None,
) -> tuple[list[BucketTiming], list[WorkerEvent]]:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    from server.adapters.worker import warm_up

    monkeypatch.setattr(warm_up, "cache_hits", lambda: device.pytorch)
    said = [] if said is None else said
    given: Any = device
    run = warm_up.WarmUp(
        START, given, device.call, Checks(), said.append, compiled=compiled, ahead=ahead, record=record
    )
    return run.run(), said


def count(name: str) -> Callable[[Device], None]:
    return lambda device: setattr(device, name, getattr(device, name) + 1)


@pytest.mark.parametrize(
    ("first", "compiled", "source", "tier", "compiles"),
    [
        (count("compiled"), True, "compiled", "", 1),
        (count("pytorch"), True, "cache", "pytorch", 0),
        (count("host"), True, "cache", "host", 0),
        (count("shared"), True, "cache", "shared", 0),
        (lambda device: None, False, "eager", "", 0),
    ],
)
def test_a_bucket_says_where_its_program_came_from(
    monkeypatch: pytest.MonkeyPatch,
    first: Callable[[Device], None],
    compiled: bool,
    source: str,
    tier: str,
    compiles: int,
) -> None:
    """By the counters, bucket by bucket."""
    timings, said = warm(monkeypatch, Device(first), compiled=compiled)
    assert [(each.source, each.tier, each.compiles) for each in timings] == [(source, tier, compiles)] * 2
    assert [type(each) for each in said] == [BucketBegan, BucketWarm] * 2


def test_every_compilation_is_submitted_before_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is counted twice, nor for a bucket whose program was in the cache."""
    device = Device()
    ahead = Ahead(device, cached=(Bucket(1, 4),))
    timings, said = warm(monkeypatch, device, ahead=ahead)
    assert ahead.log == ["submit 2x4", "submit 1x4", "wait 2x4"]
    assert {str(each.bucket): (each.source, each.tier, each.compiles) for each in timings} == {
        "2x4": ("compiled", "", 1),
        "1x4": ("cache", "pytorch", 0),
    }
    assert sum(isinstance(each, BucketWarm) for each in said) == 2


def test_each_program_that_is_waited_for_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step too long makes the worker stuck; compiling all of a large catalogue may take longer than one may."""
    device = Device()
    ahead = Ahead(device)
    told_at_wait: list[WorkerEvent] = []
    said: list[WorkerEvent] = []

    def wait(bucket: Bucket, compiles: Callable[[Bucket], None] = ahead._compile) -> None:
        told_at_wait.append(said[-1])
        compiles(bucket)

    monkeypatch.setattr(ahead, "_compile", wait)
    warm(monkeypatch, device, ahead=ahead, said=said)
    assert told_at_wait == [BucketBegan(Bucket(2, 4)), BucketBegan(Bucket(1, 4))]


def test_the_device_tells_the_memory_of_each_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watched anew for each; nothing where it does not tell."""

    def first(device: Device) -> None:
        device.memory = 10 if len(device._seen) == 1 else None

    timings, _ = warm(monkeypatch, Device(first))
    assert [each.memory_bytes for each in timings] == [10, None]


def record(folder: Path, revision: str = "rev") -> Record:
    return Record(folder, revision, "tpu", "float32", "highest")


def timing(bucket: Bucket, first_s: float, source: Any, compiled_s: float | None) -> BucketTiming:
    return BucketTiming(bucket, first_s, 0.1, 3, 0, source, compiled_s=compiled_s)


def test_a_later_start_knows_what_compiling_took(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of a bucket that was left out in between; of other weights nothing is known."""
    record(tmp_path).save([timing(bucket, 8.0, "compiled", 8.0) for bucket in BUCKETS])
    record(tmp_path).save([timing(BUCKETS[0], 2.0, "cache", 8.0)])
    timings, _ = warm(monkeypatch, Device(count("pytorch")), record=record(tmp_path))
    assert [each.compiled_s for each in timings] == [8.0, 8.0]
    assert record(tmp_path, "other").compiled_s(str(BUCKETS[0])) is None


def test_a_later_start_knows_what_the_warm_up_may_take(tmp_path: Path) -> None:
    """First and steady calls of the last one, where every declared bucket was in it."""
    first, second = map(str, BUCKETS)
    record(tmp_path).save([timing(BUCKETS[0], 8.0, "compiled", 8.0)])
    assert record(tmp_path).expected_s([first]) == pytest.approx(8.2)
    assert record(tmp_path).expected_s([first, second]) is None


def test_a_record_that_is_broken_or_cannot_be_written_costs_its_figures_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server starts; the log has the path and the reason."""
    (tmp_path / NAME).write_text("{")
    assert record(tmp_path).compiled_s("1x4") is None
    assert str(tmp_path / NAME) in capsys.readouterr().err
    record(tmp_path / "absent").save([])
    assert "is not written" in capsys.readouterr().err


def test_the_gain_of_the_cache_counts_what_came_from_it() -> None:
    """Buckets that were compiled now, or never were in our sight, say nothing about it."""
    first, second = BUCKETS
    assert cache_gain([timing(first, 2.0, "cache", 8.0), timing(second, 5.0, "compiled", 5.0)]) == 4.0
    assert cache_gain([timing(first, 2.0, "cache", None)]) is None
    assert cache_gain([]) is None
