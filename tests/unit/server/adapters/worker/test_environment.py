"""Cache folders keep apart what needs programs of its own."""

from dataclasses import replace
from pathlib import Path

import pytest

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
