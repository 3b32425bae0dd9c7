"""The command: reads beside a running gateway, prints what it found, and says what stands in the way."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from recorded_traffic import traffic

from gateway import __main__ as entry
from gateway import calibrate
from gateway.adapters.clock import SystemClock
from gateway.adapters.state_dir import STORE_FILE, StateDir, require_private_file
from gateway.adapters.store_evidence import SqlEvidence
from gateway.adapters.store_sql import SqlStore
from gateway.core.tape import Told, pack
from gateway.ports import EvidenceRow

CONFIG: dict[str, Any] = {
    "apiVersion": "canary/v1", "kind": "Gateway", "rollout": "demo", "model": "m",
    "arms": {"baseline": {"name": "gpu", "url": "http://127.0.0.1:1"},
             "candidate": {"name": "tpu", "url": "http://127.0.0.1:2"}},
}  # fmt: skip
PLAN: dict[str, Any] = {
    "apiVersion": "canary/v1", "kind": "Plan", "rollout": "demo", "steps": [50, 100], "bake_s": 300,
    "slo": {"lat_p99": {"limit_ms": 100}},
}  # fmt: skip


def rows(told: Iterable[Told], *, begin: float, run_id: str = "", width_s: float = 10.0) -> list[EvidenceRow]:
    return [
        EvidenceRow(
            run_id=run_id, part=1, position=n, window=n, width_s=width_s, at=begin + n * width_s, data=pack([each])
        )
        for n, each in enumerate(told)
    ]


class Place:
    """A state directory with a recording, a configuration and a plan."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.config, self.plan = folder / "gateway.yaml", folder / "plan.yaml"
        self.config.write_text(yaml.safe_dump({**CONFIG, "state_dir": str(self.state)}))
        self.plan.write_text(yaml.safe_dump(PLAN))

    def record(self, recorded: list[EvidenceRow]) -> None:
        self.state.mkdir(mode=0o700, exist_ok=True)

        async def write() -> None:
            store = SqlStore(self.state / STORE_FILE, "demo", require_private_file)
            await store.open()
            evidence = SqlEvidence(store.transact, "demo", keep_s=1e9)
            await evidence.open()
            await evidence.record(recorded)
            await store.close()

        asyncio.run(write())

    def run(self, *words: str) -> int:
        return calibrate.run(["--config", str(self.config), "--plan", str(self.plan), "--runs", "2", *words])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def now() -> float:
    return SystemClock().wall()


def test_figures_for_people_and_for_programs(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the state directory; the same seed prints the same."""
    monkeypatch.setenv("COLUMNS", "80")
    place.record(rows(traffic(400, np.random.default_rng(3), near=0.05), begin=now() - 4100))
    held = StateDir(place.state)
    assert place.run() == 0
    text = capsys.readouterr().out
    begun = [line[:40] for line in text.splitlines()]
    for begins in (
        "Recorded", "Alike     split by request", "Alike     spells of their own", "Spells    lat_p99",
        "Doubled   latencies            default", "Preset    default: ",
    ):  # fmt: skip
        assert any(line.startswith(begins) for line in begun)
    assert "default   rolled back after " in text
    assert "In 400 of them limits are read from histograms" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert place.run() == 0
    assert capsys.readouterr().out == text
    assert place.run("--json", "--seed", "7") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["preset"], figures["seed"], len(figures["alarms"])) == ("default", 7, 4)
    held.release()


def test_only_what_was_recorded_since_then(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A day unless told otherwise."""
    place.record(rows(traffic(500, np.random.default_rng(3)), begin=now() - 5000))
    assert place.run("--json") == 0
    assert json.loads(capsys.readouterr().out)["windows"] == 500
    assert place.run("--json", "--since", "45m") == 0
    assert 265 <= json.loads(capsys.readouterr().out)["windows"] <= 271
    assert place.run("--since", "10m") == 1
    assert "needed are 2,000 in 180 windows" in capsys.readouterr().err


def test_a_run_is_taken_instead(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """However old it is, with the limits that were counted then; rows that cannot be read are told."""
    recorded = rows(traffic(300, np.random.default_rng(3), counted=True), begin=1000.0, run_id="r7")
    place.record([*recorded, *rows([], begin=0.0), EvidenceRow(
        run_id="r7", part=1, position=999, window=999, width_s=10.0, at=9999.0, data=b"?")])  # fmt: skip
    assert place.run("--run", "r7") == 0
    text = capsys.readouterr().out
    assert "histograms" not in text
    assert "Note      1 of 302 recorded windows cannot be read by this version" in text
    assert place.run("--run", "r8") == 1
    assert "0 requests in 0 windows" in capsys.readouterr().err


def test_windows_of_another_width_are_none_of_the_plans(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A demo plan judges windows of a second; idle ones have ten."""
    place.record(rows(traffic(300, np.random.default_rng(3)), begin=now() - 3000))
    place.plan.write_text(yaml.safe_dump({**PLAN, "preset": "demo", "bake_s": 15}))
    assert place.run() == 1
    assert "recorded are windows of 10 s, and this plan judges windows of 1 s" in capsys.readouterr().err
    place.record(rows(traffic(300, np.random.default_rng(3)), begin=1000.0, run_id="r7", width_s=1.0))
    assert place.run("--run", "r7", "--json") == 0
    assert json.loads(capsys.readouterr().out)["window_s"] == 1.0


@pytest.mark.parametrize(
    ("config", "plan", "named"),
    [
        ({"rollout": "X!", "workers": 0}, {}, ["rollout: 'X!'", "workers: 0"]),
        ({}, {"steps": [], "min_events": 0}, ["plan.yaml: steps", "plan.yaml: min_events"]),
        ({}, {"rollout": "other"}, ["plan.yaml: rollout: 'other'"]),
    ],
)
def test_every_problem_of_both_documents_is_named(
    place: Place, capsys: pytest.CaptureFixture[str], config: dict[str, Any], plan: dict[str, Any], named: list[str]
) -> None:
    """With the file that it stands in; exit 2."""
    place.config.write_text(yaml.safe_dump({**CONFIG, "state_dir": str(place.state), **config}))
    place.plan.write_text(yaml.safe_dump({**PLAN, **plan}))
    assert place.run() == 2
    told = capsys.readouterr().err
    assert [name for name in named if name not in told] == []


@pytest.mark.parametrize("content", [b"[", b"\xff\xfe\x00", b"- 1", b"[" * 5000, None])
def test_a_plan_that_is_none_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    """Whatever the file is."""
    if content is None:
        place.plan.unlink()
    else:
        place.plan.write_bytes(content)
    assert place.run() == 2
    assert "plan.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["--since", "1"], ["--since", "0h"], ["--since", "1h", "--run", "r"], ["--runs", "0"], ["--seed", "-1"],
     ["--seed", "x"], ["--runs", "99999"]],
)  # fmt: skip
def test_grammar_exits_2(place: Place, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """As every command line."""
    with pytest.raises(SystemExit) as ended:
        place.run(*words)
    assert ended.value.code == 2
    assert "usage: canary-gateway calibrate" in capsys.readouterr().err


def test_without_a_store_nothing_is_made(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading only: neither the directory nor the file comes into being."""
    assert place.run() == 1
    assert STORE_FILE in capsys.readouterr().err
    assert not place.state.exists()


def test_nothing_changes_where_no_gateway_runs(place: Place) -> None:
    """Neither a file nor the time of one: also a copy on a file system that is mounted for reading only can be read."""
    place.record(rows(traffic(300, np.random.default_rng(3)), begin=now() - 3000))

    def there() -> dict[str, tuple[int, int]]:
        return {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in place.state.iterdir()}

    before = there()
    assert place.run("--json") == 0
    assert there() == before


@pytest.mark.parametrize("what", ["store", "directory", "mode"])
def test_what_a_gateway_would_not_start_on_is_not_read(
    place: Place, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """A symbolic link may lead anywhere, and a file that others may write says nothing."""
    place.record(rows(traffic(300, np.random.default_rng(3)), begin=now() - 3000))
    store, away = place.state / STORE_FILE, place.state.with_name("away")
    if what == "mode":
        store.chmod(0o644)
    else:
        there = store if what == "store" else place.state
        there.rename(away)
        there.symlink_to(away)
    assert place.run() == 1
    assert ("has mode 0644" if what == "mode" else "is a symbolic link") in capsys.readouterr().err


def test_the_command_is_found_and_the_gateway_still_starts_without_one(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``canary-gateway --config FILE`` stays what it was."""
    monkeypatch.setattr("sys.argv", ["canary-gateway", "calibrate", "--help"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 0
    assert "usage: canary-gateway calibrate" in capsys.readouterr().out
    given: list[Path] = []
    monkeypatch.setattr(entry, "run", lambda path: given.append(path) or 0)
    monkeypatch.setattr("sys.argv", ["canary-gateway", "--config", "g.yaml"])
    with pytest.raises(SystemExit):
        entry.main()
    assert given == [Path("g.yaml")]
