"""Prints the modules that server, gateway, load generator and demo import and this Python lacks; exit code 1 then."""

import importlib.util
import sys

MODULES = (
    "gevent", "httptools", "httpx", "huggingface_hub", "litestar", "locust", "msgspec", "numpy", "orjson", "packaging",
    "prometheus_client", "pydantic", "regex", "rich", "safetensors", "sqlalchemy", "tokenizers", "transformers",
    "uvicorn", "uvloop", "yaml",
)  # fmt: skip

lacking = [name for name in MODULES if importlib.util.find_spec(name) is None]
print("\n".join(lacking))
sys.exit(bool(lacking))
