"""The configuration of every part, as documents. They are written as JSON, which every YAML reader takes."""

from pathlib import Path
from typing import Any, Final

from demo.arms import Arm, Arms
from demo.scenarios import LENGTHS, Scenario
from demo.weights import Weights

API_VERSION: Final = "canary/v1"
ROLLOUT: Final = "demo"
BATCH: Final = (1, 4, 8)
STEPS: Final = (0, 10, 50, 100)  # percent
COSINE_MIN: Final = {"bfloat16": 0.99, "float32": 0.9999}  # of the coarser arm, against float32

# The demo preset's times in seconds, which --step-scale multiplies.
MIN_STEP_S: Final = 15.0
MAX_STEP_S: Final = 60.0
BAKE_S: Final = 15.0

# What a migration from one kind of device to another may change, on purpose.
DIFFERENCES: Final = ("device", "dtype", "compiled", "emulated", "torch_tpu", "libtpu", "topology")

# The gateway waits for an answer's first byte at least so long, and always longer than what the slow scenario delays.
FIRST_BYTE_S: Final = 10.0
FIRST_BYTE_LIMITS: Final = 3.0


def lengths(arm: Arm, scenario: Scenario) -> tuple[int, ...]:
    """The declared lengths of an arm's catalogue."""
    return scenario.candidate_lengths if arm.role == "candidate" else LENGTHS


def catalogue(arm: Arm, scenario: Scenario) -> str:
    """``1,4,8x16,32,64``."""
    return f"{','.join(map(str, BATCH))}x{','.join(map(str, lengths(arm, scenario)))}"


def largest(arm: Arm, scenario: Scenario) -> str:
    """The arm's largest bucket, ``8x128``."""
    return f"{BATCH[-1]}x{lengths(arm, scenario)[-1]}"


def server(
    arm: Arm, scenario: Scenario, *, weights: Weights, cache_dir: Path, ports_file: Path, access_log: Path
) -> dict[str, Any]:
    document = {
        "apiVersion": API_VERSION,
        "kind": "Server",
        "model": {
            "name": weights.name,
            "path": str(weights.folder),
            "format": "sentence-transformers",
            "sha256": weights.sha256,
        },
        "device": arm.device,
        "dtype": arm.dtype,
        "matmul_precision": "highest",
        "threads": 1,
        "catalogue": {"batch": list(BATCH), "length": list(lengths(arm, scenario))},
        "listen": {"host": "127.0.0.1", "port": 0},
        "admin": {"host": "127.0.0.1", "port": 0},
        "cache_dir": str(cache_dir),
        "ports_file": str(ports_file),
        "access_log": str(access_log),
        "drain": {"delay_s": 0.0, "limit_s": 5.0},
    }
    if arm.role == "candidate" and scenario.lenient:
        document |= {"strict": False, "largest": {"batch": BATCH[-1], "length": LENGTHS[-1]}}
    return document


def gateway(
    arms: Arms,
    *,
    model: str,
    limit_ms: float,
    baseline_url: str,
    candidate_url: str,
    state_dir: Path,
    ports_file: Path,
    access_log: Path,
) -> dict[str, Any]:
    timeouts = {"first_byte_s": max(FIRST_BYTE_S, FIRST_BYTE_LIMITS * limit_ms / 1000)}
    return {
        "apiVersion": API_VERSION,
        "kind": "Gateway",
        "rollout": ROLLOUT,
        "model": model,
        "listen": {"host": "127.0.0.1", "port": 0},
        "admin": {"host": "127.0.0.1", "port": 0},
        "state_dir": str(state_dir),
        "workers": 1,
        "expose_timings": True,
        "ports_file": str(ports_file),
        "access_log": str(access_log),
        "drain": {"delay_s": 0.0, "limit_s": 5.0},
        "arms": {
            "baseline": {"name": arms.baseline.name, "url": baseline_url, "profile": "ours", "timeouts": timeouts},
            "candidate": {"name": arms.candidate.name, "url": candidate_url, "profile": "ours", "timeouts": timeouts},
        },
    }


def differences(scenario: Scenario) -> list[str]:
    """What the plan declares to differ; the baseline stays as it is in every scenario."""
    catalogues = ["catalogue"] if scenario.candidate_lengths != LENGTHS or scenario.lenient else []
    return [*DIFFERENCES, *catalogues, *(["strict"] if scenario.lenient else [])]


def plan(arms: Arms, scenario: Scenario, *, limit_ms: float, step_scale: float) -> dict[str, Any]:
    """The frozen plan: ``limit_ms`` is L, the latency that at most 5 % of answers may exceed."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "rollout": ROLLOUT,
        "run_kind": "migration",
        "preset": "demo",
        "steps": list(STEPS),
        "slo": {
            "lat_p95": {"limit_ms": limit_ms, "allowed": 0.05},
            "error": {"allowed": 0.05},
            "refused": {"allowed": 0.05},
            "parity": {"allowed": 0.05},
            "recompile": {"limit": 0},
        },
        "parity": {"cosine_min": min(COSINE_MIN[arm.dtype] for arm in arms.both)},
        "copies": {"share": 50, "soak": True},
        "min_step_s": MIN_STEP_S * step_scale,
        "max_step_s": MAX_STEP_S * step_scale,
        "bake_s": BAKE_S * step_scale,
        "declared_differences": differences(scenario),
    }
