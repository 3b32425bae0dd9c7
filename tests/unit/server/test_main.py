"""What the front process is made of, and what it never imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

from server.config import Settings
from server.core.types import Bucket
from server.main import start_command, write_ports
from server.ports.worker import Lenient
from wire.admin import Ports

FORBIDDEN = ("torch", "torch_tpu", "transformers", "sentence_transformers", "jax")


def test_the_front_imports_no_model_library() -> None:
    """It answers probes while the worker holds its own interpreter's lock."""
    code = (
        "import sys, json; import server.main, server.__main__; "
        f"print(json.dumps([name for name in {FORBIDDEN!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []


def test_the_checks_before_the_start_import_no_framework() -> None:
    """A refusal takes a moment, not the import of everything."""
    code = (
        "import sys, json; import server.__main__; "
        "print(json.dumps([name for name in ('litestar', 'uvicorn', 'tokenizers', 'numpy') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []


def test_the_ports_file_appears_whole(tmp_path: Path) -> None:
    """Nothing partial is left beside it."""
    path = tmp_path / "ports.json"
    write_ports(path, Ports(data=1, admin=2, pid=os.getpid()))
    assert json.loads(path.read_text())["data"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["ports.json"]


def test_a_lenient_server_tells_its_worker_the_bound_and_the_number_of_programs() -> None:
    """Only the declared buckets are to be warmed; a strict server says nothing of a bound."""
    document = {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": {"name": "m", "path": "/m", "format": "sentence-transformers"},
        "device": "tpu",
        "catalogue": {"batch": [1, 4], "length": [16, 32]},
        "cache_dir": "/c",
    }
    for changes, lenient in (
        ({}, None),
        ({"strict": False, "largest": {"batch": 8, "length": 100}}, Lenient(Bucket(8, 100), programs=12)),
    ):
        settings = Settings.model_validate({**document, **changes})
        start = start_command(settings, settings.shapes(), emulator_allowed=False)
        assert start.lenient == lenient
        assert start.buckets == (Bucket(1, 16), Bucket(4, 16), Bucket(1, 32), Bucket(4, 32))
