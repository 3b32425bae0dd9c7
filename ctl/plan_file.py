"""Reads the plan document. What it says is judged by the gateway, which names every problem."""

import json
from pathlib import Path
from typing import Any

import yaml

from ctl.config import UsageError


def read_plan(path: Path) -> dict[str, Any]:
    """The parsed document. Raises UsageError when there is none to send."""
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as unreadable:
        raise UsageError(f"PLAN: {path}: {unreadable.strerror}") from unreadable
    except UnicodeDecodeError as binary:
        raise UsageError(f"PLAN: {path} is not UTF-8 text") from binary
    except (yaml.YAMLError, ValueError, AttributeError) as broken:  # its tags raise them all
        raise UsageError(f"PLAN: {path} is not valid YAML: {' '.join(str(broken).split())}") from broken
    except RecursionError as deep:
        raise UsageError(f"PLAN: {path} is nested too deeply") from deep
    if not isinstance(plan, dict):
        raise UsageError(f"PLAN: {path} holds {type(plan).__name__}; a mapping with kind: Plan is needed")
    try:
        json.dumps(plan, default=str)
    except ValueError as circular:
        raise UsageError(f"PLAN: {path} refers to itself") from circular
    return plan
