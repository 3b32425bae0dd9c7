"""What the front process is made of, and what it never imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

from server.main import write_ports
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
