"""The first 2,000 requests of ``make soak`` on the emulated device."""

from pathlib import Path

import pytest
from integration.server.running import CACHE

from bench.soak import one_layer, play


@pytest.mark.emulator
def test_two_thousand_mixed_requests_compile_nothing_and_are_all_right(model_folder: Path, tmp_path: Path) -> None:
    """Every answer compared, every declared shape run, nothing kept that should have been given back."""
    folder = one_layer(model_folder, tmp_path / "one-layer")
    report = play(folder, tmp_path, device="tpu-emulator", requests=2000, cache=CACHE)
    assert report.problems() == []
    assert report.answers[200] > 1700
    assert report.compiles == 0
