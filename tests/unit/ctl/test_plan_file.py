from pathlib import Path

import pytest

from ctl.config import UsageError
from ctl.plan_file import read_plan


def test_plan_is_a_mapping(tmp_path: Path) -> None:
    """YAML becomes the mapping that is sent, untouched."""
    (tmp_path / "plan.yaml").write_text("kind: Plan\nslo:\n  error: {allowed: 0.05}\n")
    assert read_plan(tmp_path / "plan.yaml") == {"kind": "Plan", "slo": {"error": {"allowed": 0.05}}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a: [", "not valid YAML"),
        (b"a: 2026-02-30", "not valid YAML"),
        (b"- 1\n", "holds list"),
        (b"", "NoneType"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_no_plan(tmp_path: Path, content: bytes, why: str) -> None:
    """A file that holds no mapping is refused with the reason."""
    (tmp_path / "plan.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=why):
        read_plan(tmp_path / "plan.yaml")


def test_yaml_cannot_run_code(tmp_path: Path) -> None:
    """Tags that build Python objects are refused."""
    (tmp_path / "plan.yaml").write_text("a: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(UsageError, match="not valid YAML"):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize(("text", "says"), [("&a {x: *a}", "refers to itself"), ("[" * 5000, "nested too deeply")])
def test_a_plan_without_end_is_refused_in_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    """A self-reference or thousands of brackets are no traceback."""
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        read_plan(path)
