import io
from pathlib import Path

import msgspec

from loadtest.publish import Publisher, report
from loadtest.tally import RunStats, Tally


def stats(state: str) -> RunStats:
    tally = Tally()
    tally.planned = 1
    tally.started(0.0)
    tally.succeeded(12.0, arm="tpu", bucket="1x16", failover=False)
    tally.failed("status_500", "request 3 from arm tpu: boom")
    return tally.stats(state=state, elapsed_s=2.0, seed=1, rate=1.0)


def test_live_file_each_time_stats_at_the_end(tmp_path: Path) -> None:
    """live.json follows the run, stats.json appears with its end, and no draft is left."""
    out = tmp_path / "new" / "out"
    stream = io.StringIO()
    publish = Publisher(out, stream)
    publish(stats("running"))
    assert [path.name for path in out.iterdir()] == ["live.json"]
    publish(stats("done"))
    assert sorted(path.name for path in out.iterdir()) == ["live.json", "stats.json"]
    assert msgspec.json.decode((out / "stats.json").read_bytes(), type=RunStats) == stats("done")
    assert len(stream.getvalue().splitlines()) == 2


def test_report_names_the_failures() -> None:
    """The report shows percentiles by arm and bucket and what failed."""
    text = report(stats("done"))
    assert "arm tpu" in text
    assert "1x16" in text
    assert "failure status_500: 1" in text
    assert "request 3 from arm tpu: boom" in text
    assert "second mix" not in text
    assert "second mix from 3.2 s on" in report(msgspec.structs.replace(stats("done"), switched_after_s=3.21))
