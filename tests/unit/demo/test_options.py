from pathlib import Path

import pytest

from demo.options import parse


def test_defaults() -> None:
    """The healthy scenario, warm caches, results in a folder of the scenario, all paths absolute."""
    options = parse([])
    assert options.scenario.name == "good"
    assert options.cache_dir == Path(".cache/compile").resolve()
    assert options.results == Path("demo-results/good").resolve()
    assert (options.cold, options.step_scale) == (False, 1.0)


@pytest.mark.parametrize("words", [["--scenario", "slow"], ["--step-scale", "0"], ["--limit", "inf"], ["--seed", "x"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What is not offered ends with code 2 and the usage."""
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert "usage: canary-demo" in capsys.readouterr().err
