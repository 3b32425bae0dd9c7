from pathlib import Path

import msgspec

from demo.load_view import Load, read
from loadtest.tally import Tally


def test_statistics_of_the_load_generator_are_understood(tmp_path: Path) -> None:
    """What the load generator writes is what the demo reads; before it writes there is nothing."""
    assert read(tmp_path / "stats.json") is None
    tally = Tally()
    tally.planned = 3
    tally.started(0.0)
    tally.failed("status_500", "boom")
    tally.unsent = 2
    stats = tally.stats(state="done", elapsed_s=1.0, seed=1, rate=1.0)
    (tmp_path / "stats.json").write_bytes(msgspec.json.encode(stats))
    assert read(tmp_path / "stats.json") == Load(
        planned=3, sent=1, failures=1, failures_by_code={"status_500": 1}, last_failure="boom", unsent=2
    )
