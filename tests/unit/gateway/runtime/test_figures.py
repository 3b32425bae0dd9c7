"""Paired latency as people read it."""

import pytest

from gateway.core.compare.paired import PairedLatency
from gateway.core.figures import PairedFigures
from gateway.runtime.figures import paired_figures


def measured(blocks: int, each: int, ratio: float) -> PairedLatency:
    found = PairedLatency()
    for window in range(blocks):
        for number in range(each):
            found.add(window, 0.1, 0.1 * ratio, candidate_first=(window + number) % 2 == 0)
    return found


def test_factor_and_interval_in_one_sentence() -> None:
    """With the number of blocks, and that it decides nothing."""
    figures = paired_figures(measured(40, 8, 1.8), 10.0)
    assert (figures.pairs, figures.blocks, figures.block_s) == (320, 40, 10.0)
    assert figures.sentence == (
        "candidate / baseline, same request: 1.8x (95 %: 1.8 to 1.8, 40 blocks of 10 s); information, decides nothing"
    )


def test_too_few_blocks_give_no_number() -> None:
    """Pairs are counted, and nothing is claimed."""
    figures = paired_figures(measured(5, 8, 1.8), 10.0)
    assert figures.median is None
    assert "too few blocks of 10 s yet for an interval (40 pairs)" in figures.sentence


def test_thin_traffic_gets_longer_blocks() -> None:
    """One pair a window has one order alone; four windows together mostly have both."""
    figures = paired_figures(measured(40, 1, 0.5), 10.0)
    assert (figures.blocks, figures.block_s, figures.median) == (10, 40.0, pytest.approx(0.5, rel=1e-5))


def test_without_pairs_nothing_is_said() -> None:
    """Not even that nothing is known."""
    assert paired_figures(PairedLatency(), 10.0).sentence == PairedFigures().sentence == ""
