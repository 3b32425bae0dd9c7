"""The recording on disk: rows replace themselves, old ones make room a few at a time, and others may read meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.adapters import store_evidence as module
from gateway.adapters.state_dir import StateDir, require_private_file
from gateway.adapters.store_evidence import SqlEvidence, read_recording
from gateway.adapters.store_sql import SqlStore
from gateway.core.events import JournalEntry
from gateway.core.run import Rollout
from gateway.ports import EvidenceRow, StoreUnavailable

NAME = "canary.sqlite"


def row(position: int, **change: Any) -> EvidenceRow:
    fields: dict[str, Any] = {
        "run_id": "r", "part": 7, "position": position, "window": 100 + position, "width_s": 10.0,
        "at": 1000.0 + position, "data": bytes([position % 256]),
    }  # fmt: skip
    return EvidenceRow(**(fields | change))


def with_evidence(
    folder: Path, work: Callable[[SqlEvidence, SqlStore], Awaitable[Any]], *, keep_s: float = 86_400.0
) -> Any:
    folder.chmod(0o700)

    async def run() -> Any:
        store = SqlStore(folder / NAME, "demo", require_private_file)
        await store.open()
        evidence = SqlEvidence(store.transact, "demo", keep_s=keep_s)
        await evidence.open()
        try:
            return await work(evidence, store)
        finally:
            await store.close()

    return asyncio.run(run())


def test_rows_come_back_in_the_order_in_which_they_were_first_written(tmp_path: Path) -> None:
    """The open row is written again in its place; runs and other rollouts are apart; pages go on where one ended."""

    async def work(evidence: SqlEvidence, store: SqlStore) -> None:
        other = SqlEvidence(store.transact, "other", keep_s=1e9)
        await evidence.record([row(0), row(1)])
        await evidence.record([row(1, data=b"more", at=1009.0, window=109), row(2), row(0, run_id="", data=b"idle")])
        await evidence.record([row(0, part=3)])
        await other.record([row(0, data=b"others'")])
        count, beginnings = await evidence.outline("r")
        assert (count, beginnings) == (4, [row(0), row(0, part=3)])
        first = await evidence.tape("r", after=0, limit=2)
        rest = await evidence.tape("r", after=first[-1][0], limit=9)
        assert [each for _, each in first + rest] == [
            row(0), row(1, data=b"more", at=1009.0, window=109), row(2), row(0, part=3),
        ]  # fmt: skip
        assert await evidence.outline("none") == (0, [])

    with_evidence(tmp_path, work)


def test_a_row_of_another_format_has_no_data(tmp_path: Path) -> None:
    """It is there, and nobody takes it for something else."""

    async def work(evidence: SqlEvidence, store: SqlStore) -> None:
        await evidence.record([row(0)])
        await store.transact(lambda c: c.execute(sa.text("UPDATE evidence SET format = 99")))
        assert await evidence.tape("r", after=0, limit=1) == [(1, row(0, data=b""))]

    with_evidence(tmp_path, work)


def test_old_rows_make_room_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By age against the newest row, whatever the clock says now; never more than a few in one write."""
    monkeypatch.setattr(module, "MOST_REMOVED", 3)

    async def work(evidence: SqlEvidence, store: SqlStore) -> list[int]:
        await evidence.record([row(n) for n in range(8)])
        left = []
        for n in (200, 201, 202, 203):
            await evidence.record([row(n)])
            left.append(sum(each.position < 100 for _, each in await evidence.tape("r", after=0, limit=99)))
        return left

    assert with_evidence(tmp_path, work, keep_s=195.5) == [5, 2, 1, 0]


def test_there_are_never_many_more_rows_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their age."""
    monkeypatch.setattr(module, "MOST_ROWS", 10)

    async def work(evidence: SqlEvidence, store: SqlStore) -> list[int]:
        for n in range(40):
            await evidence.record([row(n)])
        return [each.position for _, each in await evidence.tape("r", after=0, limit=99)]

    assert with_evidence(tmp_path, work) == list(range(30, 40))


def test_a_store_that_fails_says_so_with_its_own_error(tmp_path: Path) -> None:
    """Its caller decides what to do without."""

    async def work(evidence: SqlEvidence, store: SqlStore) -> None:
        await store.transact(lambda c: c.execute(sa.text("DROP TABLE evidence")))
        with pytest.raises(
            StoreUnavailable, match=r"no such table: evidence$"
        ):  # and not the statement with its values
            await evidence.record([row(0)])

    with_evidence(tmp_path, work)


def test_it_is_read_while_the_gateway_holds_and_writes_it(tmp_path: Path) -> None:
    """Neither the lock nor the writer is in the way, and nothing is written by who reads."""
    tmp_path.chmod(0o700)
    held = StateDir(tmp_path)

    async def work(evidence: SqlEvidence, store: SqlStore) -> None:
        idle = [row(0, run_id=""), row(1, run_id="")]
        await evidence.record([*idle, row(1), row(2)])
        assert read_recording(tmp_path / NAME, "demo", since=1001.0, run_id="") == idle[1:]
        assert read_recording(tmp_path / NAME, "demo", since=0, run_id="r") == [row(1), row(2)]
        assert read_recording(tmp_path / NAME, "other", since=0, run_id="") == []
        await evidence.record([row(3)])
        assert read_recording(tmp_path / NAME, "demo", since=1003.0, run_id="r") == [row(3)]

    with_evidence(tmp_path, work)
    held.release()
    assert read_recording(tmp_path / NAME, "demo", since=1003.0, run_id="r") == [row(3)]


def test_what_was_recorded_of_another_baseline_is_left_out(tmp_path: Path) -> None:
    """After a finish, and when other arms were configured, another arm is the baseline."""

    async def work(evidence: SqlEvidence, store: SqlStore) -> None:
        await evidence.record([row(n, run_id="") for n in range(4)])
        line = JournalEntry(kind="finish", who="me", text="done", data={})
        await store.save(Rollout(), [line], at=1002.0)
        await store.save(Rollout(), [replace(line, kind="start")], at=1003.0)

    with_evidence(tmp_path, work)
    found = read_recording(tmp_path / NAME, "demo", since=0, run_id="")
    assert [each.position for each in found] == [2, 3]


@pytest.mark.parametrize("content", [None, b"", b"no database, but long enough to be looked at" * 50])
def test_a_file_without_a_recording_is_an_error_that_names_it(tmp_path: Path, content: bytes | None) -> None:
    """Not there, empty, or something else."""
    path = tmp_path / "a file ?#%.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="a file"):
        read_recording(path, "demo", since=0, run_id="")
    assert path.exists() is (content is not None)
