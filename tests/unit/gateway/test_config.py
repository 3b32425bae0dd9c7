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
    for text in ("a: [", "a: 2026-02-30", "a: " + "9" * 5000, "a: " + "[" * 5000):
        broken.write_text(text)
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


@pytest.mark.parametrize(
    "url",
    [
        "http://h:99999",
        "http://h:abc",
        "http://h:0",
        "http://a b:80",
        "http://a..b:80",
        "http://h/\u4e16",
        "ftp://h",
        "http://",
    ],
)
def test_an_arm_that_cannot_be_reached_by_any_request_is_refused(tmp_path: Path, url: str) -> None:
    """What is no address is found here, not by the first request."""
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, {**GOOD, "arms": {**GOOD["arms"], "candidate": {"name": "tpu", "url": url}}}))
    assert "arms.candidate.url" in refused.value.problems[0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"listen": {"host": "999.1.1.1"}}, "listen.host"),
        ({"ports_file": "/nowhere/at/all/ports.json"}, "ports_file"),
        ({"access_log": "/nowhere/at/all/access.log"}, "access_log"),
        ({"state_dir": "a\0b"}, "state_dir"),
        ({"key": {"header": "host"}}, "key.header"),
    ],
)
def test_what_would_fail_after_the_ports_are_open_is_refused_before(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    """Addresses, folders and headers are checked with the rest."""
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, {**GOOD, **change}))
    assert refused.value.problems[0].startswith(f"{field}: ")
