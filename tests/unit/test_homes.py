"""Heavy libraries stay in the process they belong to."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "torch_tpu", "transformers", "locust", "gevent")


@pytest.mark.parametrize("module", ["gateway.main", "gateway.worker", "ctl.__main__", "server.main", "demo.__main__"])
def test_no_program_but_its_worker_loads_torch_and_none_but_the_load_test_gevent(module: str) -> None:
    """Importing the whole object graph of a program leaves torch and gevent out of the process."""
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
