import json
from pathlib import Path
from typing import Any

from demo import documents


def test_servers_are_as_the_preset_says() -> None:
    """Baseline float32 on cpu, candidate bfloat16 on the emulator, one thread each, the same catalogue."""
    made = [
        documents.server(arm, weights=Path("/w"), cache_dir=Path("/c"), ports_file=Path("/p"), access_log=Path("/a"))
        for arm in documents.ARMS
    ]
    assert [(d["device"], d["dtype"], d["threads"]) for d in made] == [
        ("cpu", "float32", 1),
        ("tpu-emulator", "bfloat16", 1),
    ]
    assert {json.dumps(d["catalogue"]) for d in made} == {'{"batch": [1, 4, 8], "length": [16, 32, 64, 128]}'}
    assert documents.LARGEST == "8x128"


def test_everything_listens_on_loopback() -> None:
    """No document opens a port to the network, and every port is chosen by the system."""
    gateway = documents.gateway(
        baseline_url="http://a", candidate_url="http://b", state_dir=Path("/s"), ports_file=Path("/p"),
        access_log=Path("/a"),
    )  # fmt: skip
    server = documents.server(
        documents.BASELINE, weights=Path("/w"), cache_dir=Path("/c"), ports_file=Path("/p"), access_log=Path("/a")
    )
    for document in (gateway, server):
        for port in ("listen", "admin"):
            assert document[port] == {"host": "127.0.0.1", "port": 0}


def test_step_scale_stretches_times_alone() -> None:
    """Twice the step time changes durations and nothing else of the plan."""
    once, twice = (documents.plan(limit_ms=400.0, step_scale=scale) for scale in (1.0, 2.0))
    times = {"min_step_s", "max_step_s", "bake_s"}
    assert {name: (once[name], twice[name]) for name in times} == {
        "min_step_s": (15.0, 30.0),
        "max_step_s": (60.0, 120.0),
        "bake_s": (15.0, 30.0),
    }
    assert {k: v for k, v in once.items() if k not in times} == {k: v for k, v in twice.items() if k not in times}


def test_plan_is_what_semantics_asks() -> None:
    """Steps, limits and copies of the demo preset."""
    plan: dict[str, Any] = documents.plan(limit_ms=400.0, step_scale=1.0)
    assert plan["steps"] == [0, 10, 50, 100]
    assert plan["slo"]["lat_p95"] == {"limit_ms": 400.0, "allowed": 0.05}
    assert plan["slo"]["recompile"] == {"limit": 0}
    assert plan["copies"] == {"share": 50, "soak": True}


def test_documents_are_plain_data() -> None:
    """A plan survives JSON, which is how it travels."""
    plan = documents.plan(limit_ms=400.0, step_scale=1.0)
    assert json.loads(json.dumps(plan)) == plan
