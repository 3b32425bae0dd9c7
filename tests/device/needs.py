"""Prints the packages of the server that this Python lacks, one a line; exit code 1 when there are some."""

import importlib.util
import sys

MODULES = (
    "httptools", "huggingface_hub", "litestar", "msgspec", "numpy", "orjson", "prometheus_client", "pydantic", "regex",
    "safetensors", "tokenizers", "transformers", "uvicorn", "uvloop", "yaml",
)  # fmt: skip

lacking = [name for name in MODULES if importlib.util.find_spec(name) is None]
print("\n".join(lacking))
sys.exit(bool(lacking))
