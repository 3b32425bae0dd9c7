"""What the README shows works: its documents parse, and its plan fits a move from GPU to TPU."""

import re
import textwrap
from pathlib import Path
from typing import Any

import yaml

from gateway.adapters.plan_document import parse_plan
from gateway.config import load as load_gateway
from gateway.core.identity import check_identity
from server.config import Settings

ROOT = Path(__file__).parents[2]
GPU = {"revision": "r", "tokenizer": "t", "truncation": "n", "output": "o", "device": "cuda", "topology": "NVIDIA H200",
       "dtype": "float32", "compiled": False, "torch": "2.13.0+cu130", "torch_tpu": None, "libtpu": None}  # fmt: skip
TPU = {**GPU, "device": "tpu", "topology": "v6e 1x1", "dtype": "bfloat16", "compiled": True, "torch": "2.13.0+cpu",
       "torch_tpu": "0.2.0", "libtpu": "0.0.52"}  # fmt: skip


def documents() -> dict[str, tuple[str, dict[str, Any]]]:
    """The YAML documents of the README by kind: text and content."""
    found = {}
    for block in re.findall(r"(?m)(?:^    .*\n)+", (ROOT / "README.md").read_text()):
        text = textwrap.dedent(block)
        if "apiVersion" in text:
            content = yaml.safe_load(text)
            found[content["kind"]] = (text, content)
    return found


def test_the_documents_are_accepted(tmp_path: Path) -> None:
    """Gateway, plan and server configuration are valid as they stand."""
    shown = documents()
    assert set(shown) == {"Gateway", "Plan", "Server"}
    path = tmp_path / "gateway.yaml"
    path.write_text(shown["Gateway"][0])
    config = load_gateway(path)
    plan, _ = parse_plan(shown["Plan"][1], config.rollout)
    assert plan.steps[0] == 0
    assert Settings.model_validate(shown["Server"][1]).device == "tpu"


def test_the_first_server_of_the_serving_page_is_accepted() -> None:
    """Its configuration is valid as it stands, on a machine without a TPU."""
    blocks = re.findall(r"(?m)(?:^    .*\n)+", (ROOT / "docs" / "serving.md").read_text())
    (first,) = [yaml.safe_load(textwrap.dedent(block)) for block in blocks if "apiVersion" in block]
    assert Settings.model_validate(first).device == "cpu"


def test_the_plan_declares_what_a_move_from_gpu_to_tpu_changes() -> None:
    """Gate 1 lets the README's plan through for such a pair."""
    declared = documents()["Plan"][1]["declared_differences"]
    assert check_identity(GPU, TPU, kind="migration", declared=declared).problems == ()


def test_the_compare_examples_of_the_pages_are_accepted() -> None:
    """What the pages show of field by field comparison is a policy, as it stands, beside the README's plan."""
    text = "\n".join((ROOT / "docs" / name).read_text() for name in ("operating.md", "serving.md"))
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?m)(?:^    .*\n)+", text)]
    examples = [yaml.safe_load(block) for block in blocks if block.startswith("compare:")]
    plan = {name: value for name, value in documents()["Plan"][1].items() if name != "parity"}
    assert len(examples) == 2, "that of a smoke and that of the plan"
    for example in examples:
        parsed, _ = parse_plan({**plan, **example}, plan["rollout"])
        assert parsed.policy is not None
        assert "bfloat16" in parsed.tolerance_source


def _anchors(page: Path) -> set[str]:
    """What GitHub makes of the page's headings."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_the_pages_lead_somewhere() -> None:
    """To a file that is there, and to a heading of it."""
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]+))?\)", page.read_text()):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(there), f"{page.name}: {target}#{anchor}"
