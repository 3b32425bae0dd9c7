"""A second start compiles nothing: told by torch_tpu's own counter, by each bucket's source and by the saved record."""

import json
from pathlib import Path
from typing import Any

import pytest
from integration.server.running import running

pytestmark = pytest.mark.emulator

WARM_UP = 'canary_server_compiles_total{phase="warm_up"}'
SERVING = 'canary_server_compiles_total{phase="serving"}'
CATALOGUE = {"batch": [1, 2], "length": {"multiples": {"of": 8, "to": 16}}, "exclude": [{"batch": 2, "length": 16}]}
BUCKETS = {"1x8", "2x8", "1x16"}


def start(where: Path, **warm_up: Any) -> tuple[dict[str, Any], float]:
    """The health of a server that is ready, and how many programs torch_tpu compiled for it."""
    where.mkdir()
    with running(
        where,
        emulator=True,
        device="tpu-emulator",
        catalogue=CATALOGUE,
        cache_dir=str(where.parent / "cache"),
        warm_up=warm_up,
    ) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        assert server.embed(["two", "texts"]).headers["x-canary-bucket"] == "2x8"
        refused = server.embed([[101] * 16, [101] * 16])
        assert refused.json()["error"]["code"] == "shape_not_served"
        assert "without batch 2 and length 16" in refused.json()["error"]["message"]
        assert server.metric(SERVING) == 0
        identity = [event for event in server.events() if event["event"] == "identity"]
        assert identity[0]["digest"] == server.embed("one").headers["x-canary-identity"]
        return health, server.metric(WARM_UP)


def sources(health: dict[str, Any]) -> dict[str, tuple[str, str, int]]:
    """Where each bucket's program came from, and how many were compiled for it."""
    return {each["bucket"]: (each["source"], each["tier"], each["compiles"]) for each in health["warm_up"]}


def test_a_second_start_compiles_nothing(tmp_path: Path) -> None:
    """Whether the programs were compiled side by side or one after the other, and whichever way they are loaded."""
    cold, compiles = start(tmp_path / "cold")
    assert compiles == len(BUCKETS)
    assert sources(cold) == dict.fromkeys(BUCKETS, ("compiled", "", 1))
    assert cold["cache_gain"] is None
    assert "3 compiled, 0 from cache" in cold["detail"]
    for name, parallel in (("together", True), ("apart", False)):
        warm, compiles = start(tmp_path / name, parallel=parallel)
        assert compiles == 0
        assert sources(warm) == dict.fromkeys(BUCKETS, ("cache", "pytorch", 0))
        assert warm["cache_gain"] > 0
        assert "0 compiled, 3 from cache" in warm["detail"]
    (record,) = (tmp_path / "cache").glob("*/warm_up.json")
    found = json.loads(record.read_text())
    assert {each["bucket"]: each["compiled_s"] for each in found["warm_up"]} == {
        each["bucket"]: each["first_s"] for each in cold["warm_up"]
    }


def test_one_after_the_other_is_a_choice(tmp_path: Path) -> None:
    """For a host that has no memory to spare for several compilations; what is served is the same."""
    cold, compiles = start(tmp_path / "cold", parallel=False)
    assert compiles == len(BUCKETS)
    assert sources(cold) == dict.fromkeys(BUCKETS, ("compiled", "", 1))
