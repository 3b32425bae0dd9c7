"""Configuration: every problem at once, with its path, before a port opens."""

from pathlib import Path

import pytest
import yaml

from gateway.config import ConfigError, is_loopback, load

GOOD = {
    "apiVersion": "canary/v1",
    "kind": "Gateway",
    "rollout": "demo",
    "model": "m",
    "state_dir": "state",
    "arms": {
        "baseline": {"name": "gpu", "url": "http://127.0.0.1:8000/base/"},
        "candidate": {"name": "tpu", "url": "http://127.0.0.1:8001"},
    },
}


def write(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "gateway.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_defaults_and_urls(tmp_path: Path) -> None:
    """Ports, limits and drain have defaults; an arm's URL may have a base path."""
    config = load(write(tmp_path, GOOD))
    assert (config.listen.port, config.admin.port, config.admin.host) == (8080, 8081, "127.0.0.1")
    assert (config.arms.baseline.host, config.arms.baseline.port, config.arms.baseline.base_path) == (
        "127.0.0.1", 8000, "/base",
    )  # fmt: skip


def test_all_problems_are_reported_at_once_with_path_value_and_what_is_allowed(tmp_path: Path) -> None:
    """Four faults, four lines."""
    broken = {
        **GOOD,
        "apiVersion": "canary/v9",
        "workers": 0,
        "colour": "blue",
        "arms": {**GOOD["arms"], "candidate": {"name": "tpu", "url": "https://x"}},
    }
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, broken))
    problems = refused.value.problems
    assert len(problems) == 4
    text = "\n".join(problems)
    assert "apiVersion: 'canary/v9'" in text
    assert "workers: 0: " in text
    assert "colour: Extra inputs" in text
    assert "arms.candidate.url: 'https://x': must be http://" in text


@pytest.mark.parametrize(
    ("candidate", "problem"),
    [
        ({"name": "gpu", "url": "http://127.0.0.1:8001"}, "also the baseline's name"),
        ({"name": "tpu", "url": "http://127.0.0.1:8000/base"}, "needs two endpoints"),
    ],
)
def test_arms_must_be_two(tmp_path: Path, candidate: dict[str, str], problem: str) -> None:
    """Equal names or equal addresses are refused."""
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, {**GOOD, "arms": {**GOOD["arms"], "candidate": candidate}}))
    assert problem in refused.value.problems[0]


def test_a_missing_or_broken_file_is_a_configuration_error(tmp_path: Path) -> None:
    """No traceback for a wrong path or broken YAML."""
    with pytest.raises(ConfigError) as missing:
        load(tmp_path / "none.yaml")
    assert "cannot be read" in missing.value.problems[0]
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    with pytest.raises(ConfigError) as bad:
        load(broken)
    assert "is not YAML" in bad.value.problems[0]


def test_what_counts_as_loopback() -> None:
    """Only addresses that never leave the machine."""
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example")
