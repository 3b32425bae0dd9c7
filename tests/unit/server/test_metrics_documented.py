"""Whoever reads a dashboard finds each of its names in the documents."""

import re
from pathlib import Path

from server.adapters.prom import PromTelemetry

ROOT = Path(__file__).parents[3]


def test_every_metric_is_in_the_table_and_the_table_has_no_other() -> None:
    """By the name that a query uses."""
    exposed = re.findall(r"^# TYPE (\S+) (\S+)$", PromTelemetry(8).exposition().decode(), re.MULTILINE)
    names = {name for name, kind in exposed if not name.endswith("_created")}
    text = (ROOT / "docs/serving.md").read_text()
    table = text[text.index("### Metrics") : text.index("### Traces")]
    first_cells = "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))
    assert names == set(re.findall(r"canary_server_\w+", first_cells))
