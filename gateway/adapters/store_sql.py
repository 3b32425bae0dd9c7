"""Rollout state and journal in one SQLite file, through SQLAlchemy Core.

The control process is the only writer: it holds the state directory (state_dir.py) for as long as it lives.
Statements run on one thread of their own, so a slow disk delays a decision and never a heartbeat.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa

from gateway.core.events import JournalEntry
from gateway.core.run import Rollout, Run
from gateway.ports import JournalLine, StateDirError, StoreUnavailable

T = TypeVar("T")
SCHEMA_VERSION: Final = 1
FORMAT: Final = 1

metadata = sa.MetaData()
meta_table = sa.Table("meta", metadata, sa.Column("schema_version", sa.Integer, nullable=False))
rollout_table = sa.Table(
    "rollout",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("checkpoint_epoch", sa.Integer),
    sa.Column("checkpoint", sa.Text),
)
run_table = sa.Table(
    "run",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("rollout", sa.Text, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)
journal_table = sa.Table(
    "journal",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("rollout", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)
# Made beside the tables, so that a file of an earlier version gets it too.
_BY_RUN = "CREATE INDEX IF NOT EXISTS journal_by_run ON journal (rollout, run_id, kind, seq)"
# The database itself refuses to rewrite history, whoever asks.
_APPEND_ONLY = tuple(
    f"CREATE TRIGGER IF NOT EXISTS journal_no_{verb.lower()} BEFORE {verb} ON journal "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
    for verb in ("UPDATE", "DELETE")
)


class SqlStore:
    """ports.Store on SQLite. ``open`` creates or checks the schema."""

    def __init__(self, path: Path, rollout: str, require_private: Callable[[Path], None]) -> None:
        self._require_private = require_private
        self._path = path
        self._rollout = rollout
        self._engine = sa.create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        sa.event.listen(self._engine, "connect", _configure)

    async def open(self) -> None:
        await self._run(self._open)

    async def close(self) -> None:
        """Waits for what is being written and closes the file."""
        await self._run(self._engine.dispose)
        self._thread.shutdown(wait=True)

    async def transact(self, work: Callable[[sa.Connection], T]) -> T:
        """``work`` within one transaction, in turn with everything else that is written."""

        def within() -> T:
            with self._engine.begin() as connection:
                return work(connection)

        return await self._run(within)

    async def load(self) -> tuple[Rollout, dict[str, Any] | None]:
        return await self._run(self._load)

    async def save(self, rollout: Rollout, lines: Sequence[JournalEntry], at: float) -> None:
        await self._run(lambda: self._save(rollout, lines, at))

    async def checkpoint(self, epoch: int, state: dict[str, Any]) -> None:
        await self._run(lambda: self._checkpoint(epoch, state))

    async def run(self, run_id: str) -> Run | None:
        return await self._run(lambda: self._find_run(run_id))

    async def history(self, *, limit: int, run_id: str | None) -> list[JournalLine]:
        return await self._run(lambda: self._history(limit, run_id))

    async def decision(self, *, run_id: str, kinds: Sequence[str], newest: bool) -> JournalLine | None:
        return await self._run(lambda: self._decision(run_id, kinds, newest))

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sa.exc.SQLAlchemyError, OSError) as error:
            cause = getattr(error, "orig", None) or error  # without the statement and its values
            raise StoreUnavailable(f"{self._path}: {type(cause).__name__}: {cause}") from error

    def _open(self) -> None:
        if self._path.exists() or self._path.is_symlink():
            self._require_private(self._path)
        else:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with self._engine.begin() as connection:
            metadata.create_all(connection)
            for statement in (_BY_RUN, *_APPEND_ONLY):
                connection.execute(sa.text(statement))
            found = connection.execute(sa.select(meta_table.c.schema_version)).scalar()
            if found is None:
                connection.execute(meta_table.insert().values(schema_version=SCHEMA_VERSION))
            elif found != SCHEMA_VERSION:
                raise StateDirError(f"{self._path}: schema {found} is not {SCHEMA_VERSION}, the one this version knows")

    def _load(self) -> tuple[Rollout, dict[str, Any] | None]:
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(rollout_table).where(rollout_table.c.name == self._rollout)).first()
        if row is None:
            return Rollout(), None
        if row.format != FORMAT:
            raise StateDirError(
                f"{self._path}: rollout format {row.format} is not {FORMAT}, the one this version knows"
            )
        try:
            rollout = msgspec.json.decode(row.document, type=Rollout)
            checkpoint = msgspec.json.decode(row.checkpoint) if row.checkpoint_epoch == rollout.epoch else None
        except (msgspec.DecodeError, ValueError) as error:
            raise StateDirError(f"{self._path}: the stored rollout cannot be read: {error}") from error
        return rollout, checkpoint

    def _save(self, rollout: Rollout, lines: Sequence[JournalEntry], at: float) -> None:
        run_id = rollout.run.run_id if rollout.run else None
        values = {
            "run_id": run_id,
            "epoch": rollout.epoch,
            "state": str(rollout.state),
            "format": FORMAT,
            "document": msgspec.json.encode(rollout).decode(),
        }
        with self._engine.begin() as connection:
            stored = connection.execute(
                sa.select(rollout_table.c.epoch).where(rollout_table.c.name == self._rollout)
            ).scalar()
            if stored is None or stored <= rollout.epoch:  # what is measured late must not overwrite a newer epoch
                _upsert(connection, rollout_table, "name", self._rollout, values)
            if rollout.run is not None:
                document = msgspec.json.encode(rollout.run).decode()
                row = {"rollout": self._rollout, "format": FORMAT, "document": document}
                _upsert(connection, run_table, "run_id", rollout.run.run_id, row)
            for line in lines:
                connection.execute(
                    journal_table.insert().values(
                        at=at,
                        rollout=self._rollout,
                        run_id=run_id,
                        epoch=rollout.epoch,
                        kind=line.kind,
                        who=line.who,
                        text=line.text,
                        data=msgspec.json.encode(line.data).decode(),
                    )
                )

    def _checkpoint(self, epoch: int, state: dict[str, Any]) -> None:
        with self._engine.begin() as connection:
            connection.execute(
                rollout_table.update()
                .where(rollout_table.c.name == self._rollout, rollout_table.c.epoch == epoch)
                .values(checkpoint_epoch=epoch, checkpoint=msgspec.json.encode(state).decode())
            )

    def _find_run(self, run_id: str) -> Run | None:
        with self._engine.connect() as connection:
            row = connection.execute(
                sa.select(run_table).where(run_table.c.run_id == run_id, run_table.c.rollout == self._rollout)
            ).first()
        if row is None:
            return None
        try:
            if row.format != FORMAT:
                raise ValueError(f"format {row.format} is not {FORMAT}, the one this version knows")
            return msgspec.json.decode(row.document, type=Run)
        except (msgspec.DecodeError, ValueError) as error:
            raise StoreUnavailable(f"{self._path}: run {run_id} cannot be read: {error}") from error

    def _history(self, limit: int, run_id: str | None) -> list[JournalLine]:
        query = sa.select(journal_table).where(journal_table.c.rollout == self._rollout)
        if run_id is not None:
            query = query.where(journal_table.c.run_id == run_id)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(journal_table.c.seq.desc()).limit(limit)).all()
        return [_line(row) for row in reversed(rows)]

    def _decision(self, run_id: str, kinds: Sequence[str], newest: bool) -> JournalLine | None:
        columns = journal_table.c
        order = columns.seq.desc() if newest else columns.seq.asc()
        with self._engine.connect() as connection:
            rows = [  # one look-up a kind: each ends at the first entry of the index
                connection.execute(
                    sa.select(journal_table)
                    .where(columns.rollout == self._rollout, columns.run_id == run_id, columns.kind == kind)
                    .order_by(order)
                    .limit(1)
                ).first()
                for kind in kinds
            ]
        found = sorted((row for row in rows if row is not None), key=lambda row: row.seq)
        return _line(found[-1 if newest else 0]) if found else None


def _line(row: Any) -> JournalLine:
    """A line whose data cannot be read is shown as such; the others are not lost with it."""
    try:
        data = msgspec.json.decode(row.data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        data = {"unreadable": str(error)}
    return JournalLine(
        seq=row.seq, at=row.at, run_id=row.run_id, epoch=row.epoch, kind=row.kind, who=row.who, text=row.text, data=data
    )


def _configure(connection: Any, _record: Any) -> None:
    """Every connection: survive a crash of the machine (FULL), wait a little for a reader, keep foreign readers out."""
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=2000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _upsert(connection: sa.Connection, table: sa.Table, key: str, value: str, values: dict[str, Any]) -> None:
    updated = connection.execute(table.update().where(table.c[key] == value).values(values))
    if updated.rowcount == 0:
        connection.execute(table.insert().values({key: value, **values}))
