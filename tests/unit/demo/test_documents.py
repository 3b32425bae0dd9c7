import json
from pathlib import Path
from typing import Any

from demo import documents
from demo.arms import DEVICES, Arm, arms_on
from demo.scenarios import SCENARIOS
from demo.weights import Weights

GOOD = SCENARIOS["good"]
ARMS = arms_on()
WEIGHTS = Weights("all-MiniLM-L6-v2", Path("/w"), "0" * 64)


def server(arm: Arm, scenario: str = "good") -> dict[str, Any]:
    return documents.server(
        arm, SCENARIOS[scenario], weights=WEIGHTS, cache_dir=Path("/c"), ports_file=Path("/p"), access_log=Path("/a")
    )


def plan(scenario: str = "good", *, step_scale: float = 1.0) -> dict[str, Any]:
    return documents.plan(ARMS, SCENARIOS[scenario], limit_ms=400.0, step_scale=step_scale)


def gateway(limit_ms: float = 400.0) -> dict[str, Any]:
    return documents.gateway(
        ARMS, model=WEIGHTS.name, limit_ms=limit_ms, baseline_url="http://a", candidate_url="http://b",
        state_dir=Path("/s"), ports_file=Path("/p"), access_log=Path("/a"),
    )  # fmt: skip


def test_servers_are_as_the_preset_says() -> None:
    """Baseline float32 on cpu, candidate bfloat16 on the emulator, one thread each, the same catalogue."""
    made = [server(arm) for arm in ARMS.both]
    assert [(d["device"], d["dtype"], d["threads"]) for d in made] == [
        ("cpu", "float32", 1),
        ("tpu-emulator", "bfloat16", 1),
    ]
    assert {json.dumps(d["catalogue"]) for d in made} == {'{"batch": [1, 4, 8], "length": [16, 32, 64, 128]}'}
    assert {documents.largest(arm, GOOD) for arm in ARMS.both} == {"8x128"}
    assert not any("strict" in document for document in made)


def test_everything_listens_on_loopback() -> None:
    """No document opens a port to the network, and every port is chosen by the system."""
    for document in (gateway(), server(ARMS.baseline)):
        for port in ("listen", "admin"):
            assert document[port] == {"host": "127.0.0.1", "port": 0}


def test_step_scale_stretches_times_alone() -> None:
    """Twice the step time changes durations and nothing else of the plan."""
    once, twice = (plan(step_scale=scale) for scale in (1.0, 2.0))
    times = {"min_step_s", "max_step_s", "bake_s"}
    assert {name: (once[name], twice[name]) for name in times} == {
        "min_step_s": (15.0, 30.0),
        "max_step_s": (60.0, 120.0),
        "bake_s": (15.0, 30.0),
    }
    assert {k: v for k, v in once.items() if k not in times} == {k: v for k, v in twice.items() if k not in times}


def test_plan_is_what_semantics_asks() -> None:
    """Steps, limits and copies of the demo preset."""
    asked = plan()
    assert asked["steps"] == [0, 10, 50, 100]
    assert asked["slo"]["lat_p95"] == {"limit_ms": 400.0, "allowed": 0.05}
    assert asked["slo"]["recompile"] == {"limit": 0}
    assert asked["copies"] == {"share": 50, "soak": True}


def test_documents_are_plain_data() -> None:
    """A plan survives JSON, which is how it travels."""
    for document in (plan("recompile"), server(ARMS.candidate, "recompile"), gateway()):
        assert json.loads(json.dumps(document)) == document


def test_a_smaller_catalogue_is_the_candidates_alone() -> None:
    """Where later traffic is to be outside the candidate's catalogue, the baseline serves it, and the plan says so."""
    for name in ("refuse", "recompile"):
        assert server(ARMS.baseline, name) == server(ARMS.baseline)
        assert server(ARMS.candidate, name)["catalogue"]["length"] == [16, 32, 64]
        assert documents.largest(ARMS.candidate, SCENARIOS[name]) == "8x64"
        assert documents.catalogue(ARMS.candidate, SCENARIOS[name]) == "1,4,8x16,32,64"
        assert "catalogue" in plan(name)["declared_differences"]
    assert "catalogue" not in plan("crash")["declared_differences"]


def test_only_the_lenient_candidate_compiles_what_it_does_not_declare() -> None:
    """Lenient mode is declared in the plan, bounded, and nobody else's."""
    lenient = server(ARMS.candidate, "recompile")
    assert (lenient["strict"], lenient["largest"]) == (False, {"batch": 8, "length": 128})
    assert "strict" in plan("recompile")["declared_differences"]
    assert "strict" not in server(ARMS.candidate, "refuse")
    assert "strict" not in plan("refuse")["declared_differences"]


def test_the_gateway_waits_longer_than_a_slow_candidate_takes() -> None:
    """Answers beyond the limit must be seen as late, not as lost."""
    first_byte_s = [gateway(limit)["arms"]["candidate"]["timeouts"]["first_byte_s"] for limit in (400.0, 6000.0)]
    assert first_byte_s == [10.0, 18.0]


def test_any_two_devices_make_two_arms() -> None:
    """Told apart by name, also on one device; a float32 pair is held closer than one with bfloat16."""
    for one in DEVICES:
        for other in DEVICES:
            both = arms_on(one, other).both
            assert both[0].name != both[1].name
            assert [(arm.role, arm.device) for arm in both] == [("baseline", one), ("candidate", other)]
    asked = documents.plan(arms_on("cuda", "cpu"), GOOD, limit_ms=1.0, step_scale=1.0)
    assert asked["parity"] == {"cosine_min": 0.9999}
    assert plan()["parity"] == {"cosine_min": 0.99}
