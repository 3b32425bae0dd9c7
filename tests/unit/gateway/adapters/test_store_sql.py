"""Rollout state and journal survive; history cannot be rewritten."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gateway.adapters.state_dir import require_private_file
from gateway.adapters.store_sql import SqlStore
from gateway.core.events import JournalEntry
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.run import Outcome, Rollout, Run, State
from gateway.ports import StateDirError, StoreUnavailable

PLAN = Plan(
    rollout="demo",
    steps=(0, 1000),
    metrics=(
        MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=400),
        MetricLimit(metric=MetricId.PARITY, allowed=0.05),
    ),
    parity=ParityPolicy(cosine_min=0.99),
    copies=5000,
)
RUN = Run(run_id="r1", plan=PLAN, plan_digest="d", started_at=1.0, who="me", reason="go", paused_from=State.STEPPING)
ROLLOUT = Rollout(state=State.PAUSED, epoch=7, weight=1000, run=RUN)
LINE = JournalEntry(kind="pause", who="me", text="waiting", data={"weight": 1000})


def with_store(path: Path, work: Callable[[SqlStore], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        store = SqlStore(path / "canary.sqlite", "demo", require_private_file)
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def test_a_fresh_store_holds_an_idle_rollout(tmp_path: Path) -> None:
    """Nothing stored: idle, no checkpoint, no history."""
    assert with_store(tmp_path, lambda s: s.load()) == (Rollout(), None)
    assert with_store(tmp_path, lambda s: s.history(limit=5, run_id=None)) == []


def test_state_journal_and_checkpoint_come_back_as_they_were(tmp_path: Path) -> None:
    """What was saved is loaded by the next process, plan included."""

    async def write(store: SqlStore) -> None:
        await store.save(ROLLOUT, [LINE, replace(LINE, kind="other")], 12.5)
        await store.checkpoint(7, {"E": 0.5})

    with_store(tmp_path, write)
    assert with_store(tmp_path, lambda s: s.load()) == (ROLLOUT, {"E": 0.5})
    lines = with_store(tmp_path, lambda s: s.history(limit=1, run_id="r1"))
    assert [(line.seq, line.kind, line.run_id, line.epoch, line.at, line.data) for line in lines] == [
        (2, "other", "r1", 7, 12.5, {"weight": 1000})
    ]


def test_a_checkpoint_of_another_epoch_is_not_given_out(tmp_path: Path) -> None:
    """A rollback between checkpoint and restart voids the judge's state."""

    async def write(store: SqlStore) -> None:
        await store.save(ROLLOUT, [], 1.0)
        await store.checkpoint(7, {"E": 0.5})
        ended = replace(RUN, outcome=Outcome.ROLLED_BACK)
        await store.save(Rollout(state=State.ROLLED_BACK, epoch=8, weight=0, run=ended), [], 2.0)

    with_store(tmp_path, write)
    assert with_store(tmp_path, lambda s: s.load())[1] is None


def test_the_database_refuses_to_change_the_journal(tmp_path: Path) -> None:
    """UPDATE and DELETE on the journal abort, whoever asks."""
    with_store(tmp_path, lambda s: s.save(ROLLOUT, [LINE], 1.0))
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'canary.sqlite'}")
    for statement in ("UPDATE journal SET text = 'x'", "DELETE FROM journal"):
        with pytest.raises(sa.exc.IntegrityError, match="append-only"), engine.begin() as connection:
            connection.execute(sa.text(statement))
    engine.dispose()


def test_a_store_that_fails_says_so_with_its_own_error(tmp_path: Path) -> None:
    """A statement that cannot be done raises StoreUnavailable and names the file."""

    async def work(store: SqlStore) -> None:
        with store._engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE journal"))
        with pytest.raises(StoreUnavailable, match=r"canary\.sqlite"):
            await store.save(ROLLOUT, [LINE], 1.0)
        assert (await store.load())[0] == Rollout()

    with_store(tmp_path, work)


def test_a_file_open_to_others_or_of_another_schema_ends_the_start(tmp_path: Path) -> None:
    """Modes and schema are checked before anything is read."""
    with_store(tmp_path, lambda s: s.load())
    path = tmp_path / "canary.sqlite"
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE meta SET schema_version = 99"))
    engine.dispose()
    with pytest.raises(StateDirError, match="schema 99"):
        with_store(tmp_path, lambda s: s.load())
    path.chmod(0o640)
    with pytest.raises(StateDirError, match="0640"):
        with_store(tmp_path, lambda s: s.load())


def test_what_comes_late_from_an_older_epoch_is_journalled_and_overwrites_nothing(tmp_path: Path) -> None:
    """A rollback's figures may arrive after the next start: the newer state stays, the line is kept."""

    async def write(store: SqlStore) -> None:
        await store.save(Rollout(state=State.VALIDATING, epoch=8, run=replace(RUN, run_id="r2")), [], 1.0)
        await store.save(Rollout(state=State.ROLLED_BACK, epoch=7, run=RUN), [LINE], 2.0)

    with_store(tmp_path, write)
    assert with_store(tmp_path, lambda s: s.load())[0].epoch == 8
    assert [line.run_id for line in with_store(tmp_path, lambda s: s.history(limit=5, run_id=None))] == ["r1"]


def test_one_line_of_a_decision_is_found_among_many(tmp_path: Path) -> None:
    """The oldest or the newest of some kinds of one run, whatever else there is; None when there is none."""

    async def work(store: SqlStore) -> list[tuple[str, str] | None]:
        for run_id in ("r1", "r2"):
            kinds = ("pause", "step", "rollback", "pause", "rollback", "step")
            lines = [replace(LINE, kind=kind, text=f"{run_id} {n}") for n, kind in enumerate(kinds)]
            await store.save(replace(ROLLOUT, run=replace(RUN, run_id=run_id)), lines, 1.0)
        asked = [("r1", ["rollback", "refused"], False), ("r1", ["pause"], True), ("r2", ["step"], True)]
        asked += [("r1", ["done"], True), ("r3", ["pause"], True)]
        found = [await store.decision(run_id=run_id, kinds=kinds, newest=newest) for run_id, kinds, newest in asked]
        return [(line.kind, line.text) if line else None for line in found]

    assert with_store(tmp_path, work) == [("rollback", "r1 2"), ("pause", "r1 3"), ("step", "r2 5"), None, None]


def test_a_file_of_before_the_index_gets_it(tmp_path: Path) -> None:
    """Finding a decision reads no line but its own."""
    with_store(tmp_path, lambda s: s.save(ROLLOUT, [LINE], 1.0))
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'canary.sqlite'}")
    with engine.begin() as connection:
        connection.execute(sa.text("DROP INDEX journal_by_run"))
    engine.dispose()
    assert with_store(tmp_path, lambda s: s.load())[0] == ROLLOUT
    query = "SELECT * FROM journal WHERE rollout = 'demo' AND run_id = 'r1' AND kind = 'x' ORDER BY seq DESC LIMIT 1"
    with engine.connect() as connection:
        plan = connection.execute(sa.text(f"EXPLAIN QUERY PLAN {query}")).all()
    engine.dispose()
    assert "USING INDEX journal_by_run (rollout=? AND run_id=? AND kind=?)" in str(plan)
    assert "B-TREE" not in str(plan)


@pytest.mark.parametrize("data", ["{not json", "[1]", "7"])
def test_a_journal_line_that_cannot_be_read_hides_no_other(tmp_path: Path, data: str) -> None:
    """It is shown as unreadable."""
    with_store(tmp_path, lambda s: s.save(ROLLOUT, [LINE], 1.0))
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'canary.sqlite'}")
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO journal (at, rollout, run_id, epoch, kind, who, text, data)"
                " VALUES (1, 'demo', 'r1', 7, 'rollback', 'me', 't', :data)"
            ),
            {"data": data},
        )
    engine.dispose()
    lines = with_store(tmp_path, lambda s: s.history(limit=5, run_id=None))
    assert [list(line.data) for line in lines] == [["weight"], ["unreadable"]]
    line = with_store(tmp_path, lambda s: s.decision(run_id="r1", kinds=["rollback"], newest=False))
    assert list(line.data) == ["unreadable"]


def test_a_run_of_before_these_fields_is_read(tmp_path: Path) -> None:
    """What an earlier version stored opens, and what it did not keep is not known."""
    with_store(tmp_path, lambda s: s.save(ROLLOUT, [], 1.0))
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'canary.sqlite'}")
    newer = ("live_counted_from", "acknowledged", "unconfirmed", "judged_from", "promoted_at", "candidate_strict")
    removed = ", ".join(f"'$.run.{name}'" for name in (*newer, "overrides"))
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE rollout SET document = json_remove(document, {removed})"))
    engine.dispose()
    assert with_store(tmp_path, lambda s: s.load())[0] == ROLLOUT


def test_a_stored_rollout_that_cannot_be_read_ends_the_start_with_the_file(tmp_path: Path) -> None:
    """No traceback, and never a guess."""
    with_store(tmp_path, lambda s: s.save(ROLLOUT, [], 1.0))
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'canary.sqlite'}")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE rollout SET document = '{}x'"))
    engine.dispose()
    with pytest.raises(StateDirError, match="cannot be read"):
        with_store(tmp_path, lambda s: s.load())
