"""The configuration of every part, as documents. They are written as JSON, which every YAML reader takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo.scenarios import LENGTHS, Scenario
from demo.weights import MODEL, SHA256

API_VERSION: Final = "canary/v1"
ROLLOUT: Final = "demo"
BATCH: Final = (1, 4, 8)
STEPS: Final = (0, 10, 50, 100)  # percent
COSINE_MIN: Final = 0.99  # bfloat16 against float32

# The demo preset's times in seconds, which --step-scale multiplies.
MIN_STEP_S: Final = 15.0
MAX_STEP_S: Final = 60.0
BAKE_S: Final = 15.0

# What a migration from this baseline to this candidate changes, on purpose.
DIFFERENCES: Final = ("device", "dtype", "compiled", "emulated", "torch_tpu", "libtpu", "topology")

# The gateway waits for an answer's first byte at least so long, and always longer than what the slow scenario delays.
FIRST_BYTE_S: Final = 10.0
FIRST_BYTE_LIMITS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Arm:
    """One server: its name in every table, the device it runs on, and how."""

    name: str
    role: str
    device: str
    dtype: str
    label: str


BASELINE: Final = Arm("cpu", "baseline", "cpu", "float32", "stands in for the GPU")
CANDIDATE: Final = Arm(
    "tpu", "candidate", "tpu-emulator", "bfloat16", "emulated: XLA on CPU, not TPU speed or arithmetic"
)
ARMS: Final = (BASELINE, CANDIDATE)


def lengths(arm: Arm, scenario: Scenario) -> tuple[int, ...]:
    """The declared lengths of an arm's catalogue."""
    return scenario.candidate_lengths if arm is CANDIDATE else LENGTHS


def catalogue(arm: Arm, scenario: Scenario) -> str:
    """``1,4,8x16,32,64``."""
    return f"{','.join(map(str, BATCH))}x{','.join(map(str, lengths(arm, scenario)))}"


def largest(arm: Arm, scenario: Scenario) -> str:
    """The arm's largest bucket, ``8x128``."""
    return f"{BATCH[-1]}x{lengths(arm, scenario)[-1]}"


def server(
    arm: Arm, scenario: Scenario, *, weights: Path, cache_dir: Path, ports_file: Path, access_log: Path
) -> dict[str, Any]:
    document = {
        "apiVersion": API_VERSION,
        "kind": "Server",
        "model": {"name": MODEL, "path": str(weights), "format": "sentence-transformers", "sha256": SHA256},
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
    if arm is CANDIDATE and scenario.lenient:
        document |= {"strict": False, "largest": {"batch": BATCH[-1], "length": LENGTHS[-1]}}
    return document


def gateway(
    *,
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
        "model": MODEL,
        "listen": {"host": "127.0.0.1", "port": 0},
        "admin": {"host": "127.0.0.1", "port": 0},
        "state_dir": str(state_dir),
        "workers": 1,
        "expose_timings": True,
        "ports_file": str(ports_file),
        "access_log": str(access_log),
        "drain": {"delay_s": 0.0, "limit_s": 5.0},
        "arms": {
            "baseline": {"name": BASELINE.name, "url": baseline_url, "profile": "ours", "timeouts": timeouts},
            "candidate": {"name": CANDIDATE.name, "url": candidate_url, "profile": "ours", "timeouts": timeouts},
        },
    }


def differences(scenario: Scenario) -> list[str]:
    """What the plan declares to differ; the baseline stays as it is in every scenario."""
    catalogues = ["catalogue"] if scenario.candidate_lengths != LENGTHS or scenario.lenient else []
    return [*DIFFERENCES, *catalogues, *(["strict"] if scenario.lenient else [])]


def plan(scenario: Scenario, *, limit_ms: float, step_scale: float) -> dict[str, Any]:
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
        "parity": {"cosine_min": COSINE_MIN},
        "copies": {"share": 50, "soak": True},
        "min_step_s": MIN_STEP_S * step_scale,
        "max_step_s": MAX_STEP_S * step_scale,
        "bake_s": BAKE_S * step_scale,
        "declared_differences": differences(scenario),
    }
