"""Cache folders keep apart what needs programs of its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.adapters.worker import environment
from server.adapters.worker.environment import cache_folder
from server.core.types import Bucket
from server.core.warmup import StabilityRule
from server.ports.worker import Start

START = Start(
    model_path="/m",
    sha256=None,
    device="tpu-emulator",
    emulator_allowed=True,
    dtype="float32",
    matmul_precision="highest",
    compile=None,
    threads=1,
    buckets=(Bucket(1, 16),),
    stability=StabilityRule(),
    cache_dir="/c",
    front_pid=7,
)
VERSIONS: dict[str, str | None] = {"torch": "2.13.0", "torch_tpu": "0.2.0"}


def test_the_same_combination_finds_its_folder_again() -> None:
    """A restart is warm; what does not change programs does not matter."""
    again = replace(START, front_pid=8, buckets=(Bucket(8, 128),), model_path="/other")
    folder = cache_folder(START, VERSIONS, "avx2")
    assert folder == cache_folder(again, VERSIONS, "avx2")
    assert folder.parent == Path("/c")
    assert folder.name.startswith("tpu-emulator-float32-highest-")


@pytest.mark.parametrize(
    ("start", "versions", "cpu"),
    [
        (replace(START, dtype="bfloat16"), VERSIONS, "avx2"),
        (replace(START, matmul_precision="medium"), VERSIONS, "avx2"),
        (replace(START, device="cpu"), VERSIONS, "avx2"),
        (replace(START, threads=2), VERSIONS, "avx2"),
        (START, {**VERSIONS, "torch_tpu": "0.3.0"}, "avx2"),
        (START, VERSIONS, "avx2 avx512f"),
    ],
)
def test_another_combination_gets_another_folder(start: Start, versions: dict[str, str | None], cpu: str) -> None:
    """A program of another precision, version or CPU must not come back."""
    assert cache_folder(start, versions, cpu) != cache_folder(START, VERSIONS, "avx2")


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``prepare`` for a device, and the variables that it leaves."""

    def run(device: Any, **given: str) -> dict[str, str]:
        monkeypatch.setattr(environment.os, "environ", dict(given))
        folder = environment.prepare(replace(START, device=device, cache_dir=str(tmp_path)), VERSIONS)
        assert folder.is_dir()
        return dict(environment.os.environ)

    return run


def test_torch_tpus_own_tiers_are_the_persons_choice(prepared: Any) -> None:
    """Off by default; the emulator has none whatever was asked for."""
    assert prepared("tpu")[environment.TIER_2] == "disabled"
    assert not environment.tiers_in_use()
    assert prepared("tpu", **{environment.TIER_2: "mine"})[environment.TIER_2] == "mine"
    assert environment.tiers_in_use()
    assert environment.TIER_2 not in prepared("tpu", **{environment.TIER_3: "/shared"})
    assert environment.tiers_in_use()
    emulated = prepared("tpu-emulator", **{environment.TIER_2: "mine", environment.TIER_3: "/shared"})
    assert (emulated[environment.TIER_2], environment.TIER_3 in emulated) == ("disabled", False)
    assert not environment.tiers_in_use()


def test_other_compiler_options_are_another_combination(prepared: Any) -> None:
    """PyTorch's key of a program does not know them."""
    folders = [prepared("tpu", **given)["TORCHINDUCTOR_CACHE_DIR"] for given in ({}, {"XLA_FLAGS": "--xla_x"}, {})]
    assert folders[0] == folders[2] != folders[1]


def test_programs_in_shared_memory_are_counted(prepared: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the name that the tier has; none while it is off."""
    (tmp_path / "mine" / "build").mkdir(parents=True)
    (tmp_path / "mine" / "build" / "a.bin").write_bytes(b"")
    (tmp_path / "mine" / "build" / "a.lock").write_bytes(b"")
    monkeypatch.setattr(environment, "HOST_TIER", tmp_path)
    prepared("tpu", **{environment.TIER_2: "mine"})
    assert environment.host_tier_files() == 1
    prepared("tpu")
    assert environment.host_tier_files() == 0
