from pathlib import Path

import pytest

from demo.options import parse
from demo.scenarios import SCENARIOS


def test_defaults() -> None:
    """The healthy scenario, warm caches, results in a folder of the scenario, all paths absolute."""
    (options,) = parse([])
    assert options.scenario.name == "good"
    assert options.cache_dir == Path(".cache/compile").resolve()
    assert options.results == Path("demo-results/good").resolve()
    assert [arm.device for arm in options.arms.both] == ["cpu", "tpu-emulator"]
    assert options.weights is None
    assert (options.cold, options.step_scale, options.turn) == (False, 1.0, "")


def test_all_scenarios_take_turns() -> None:
    """``all`` plays every scenario once, each into a folder of its own; caches are emptied at most once."""
    plays = parse(["--scenario", "all", "--cold"])
    assert [play.scenario.name for play in plays] == list(SCENARIOS)
    assert [play.turn for play in plays][::6] == ["1 of 7", "7 of 7"]
    assert [play.cold for play in plays] == [True] + [False] * 6
    assert len({play.results for play in plays}) == 7


def test_devices_and_weights_can_be_chosen(tmp_path: Path) -> None:
    """For a machine with a GPU."""
    (options,) = parse(["--baseline", "cuda", "--candidate", "cpu", "--weights", str(tmp_path)])
    assert [(arm.name, arm.device, arm.dtype) for arm in options.arms.both] == [
        ("gpu", "cuda", "float32"), ("cpu", "cpu", "float32"),
    ]  # fmt: skip
    assert options.weights == tmp_path


@pytest.mark.parametrize(
    "words", [["--scenario", "fast"], ["--baseline", "gpu"], ["--step-scale", "0"], ["--limit", "inf"], ["--seed", "x"]]
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What is not offered ends with code 2 and the usage."""
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert "usage: canary-demo" in capsys.readouterr().err
