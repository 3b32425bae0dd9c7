"""The recording in the store: one row a window, old ones removed a few at a time.

The rows stand in the same file as state and journal and are written by the same thread, in turn with them, a bounded
number at a time. Whoever reads a recording without the gateway opens the file for reading only, beside it.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from gateway.core.tape import FORMAT
from gateway.ports import EvidenceRow, StoreUnavailable

T = TypeVar("T")
REPLICA: Final = "0"
MOST_ROWS: Final = 500_000
"""Whatever their age: 58 days of windows of 10 s, or six of those of 1 s."""
MOST_REMOVED: Final = 200
"""In one write."""
DAY_S: Final = 86_400.0

metadata = sa.MetaData()
evidence_table = sa.Table(
    "evidence",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("rollout", sa.Text, nullable=False),
    sa.Column("replica", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("part", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("window", sa.Integer, nullable=False),
    sa.Column("width_s", sa.Float, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("rollout", "replica", "run_id", "part", "position"),
    sa.Index("evidence_by_time", "rollout", "at"),
    sqlite_autoincrement=True,
)
_COLUMNS = evidence_table.c
_KEY: Final = ("rollout", "replica", "run_id", "part", "position")


_BASELINE_CHANGED = sa.text("SELECT max(at) FROM journal WHERE rollout = :rollout AND kind IN ('finish', 'rearmed')")


class Transact(Protocol):
    """Runs work within one transaction of the store. Raises StoreUnavailable."""

    def __call__(self, work: Callable[[sa.Connection], T], /) -> Awaitable[T]: ...


class SqlEvidence:
    """ports.EvidenceStore beside the other tables. ``keep_s``: rows older than this are removed."""

    def __init__(self, transact: Transact, rollout: str, *, keep_s: float) -> None:
        self._transact, self._rollout, self._keep_s = transact, rollout, keep_s

    async def open(self) -> None:
        await self._transact(metadata.create_all)

    async def record(self, rows: Sequence[EvidenceRow]) -> None:
        await self._transact(lambda connection: self._record(connection, rows))

    async def outline(self, run_id: str) -> tuple[int, list[EvidenceRow]]:
        return await self._transact(lambda connection: self._outline(connection, run_id))

    async def tape(self, run_id: str, *, after: int, limit: int) -> list[tuple[int, EvidenceRow]]:
        # The page is found in the index alone: sorted with them, every page would cost the data of the whole run.
        page = sa.select(_COLUMNS.id).where(*self._of_run(run_id), _COLUMNS.id > after)
        mine = _COLUMNS.id.in_(page.order_by(_COLUMNS.id).limit(limit))
        query = sa.select(evidence_table).where(mine).order_by(_COLUMNS.id)
        return await self._transact(lambda connection: [(row.id, _row(row)) for row in connection.execute(query)])

    def _of_run(self, run_id: str) -> tuple[sa.ColumnElement[bool], ...]:
        return _COLUMNS.rollout == self._rollout, _COLUMNS.replica == REPLICA, _COLUMNS.run_id == run_id

    def _record(self, connection: sa.Connection, rows: Sequence[EvidenceRow]) -> None:
        for row in rows:
            values = {name: getattr(row, name) for name in EvidenceRow.__dataclass_fields__}
            query = insert(evidence_table).values(rollout=self._rollout, replica=REPLICA, format=FORMAT, **values)
            fresh = {name: query.excluded[name] for name in ("window", "at", "format", "data")}
            connection.execute(query.on_conflict_do_update(index_elements=_KEY, set_=fresh))
        if rows:
            self._make_room(connection, rows[-1].at - self._keep_s)

    def _make_room(self, connection: sa.Connection, oldest_at: float) -> None:
        """A few rows a time, by age and by number."""
        newest = connection.execute(sa.select(sa.func.max(_COLUMNS.id))).scalar() or 0
        too_old = sa.and_(_COLUMNS.rollout == self._rollout, _COLUMNS.at < oldest_at)
        for which in (too_old, _COLUMNS.id <= newest - MOST_ROWS):
            some = sa.select(_COLUMNS.id).where(which).limit(MOST_REMOVED)
            connection.execute(evidence_table.delete().where(_COLUMNS.id.in_(some.scalar_subquery())))

    def _outline(self, connection: sa.Connection, run_id: str) -> tuple[int, list[EvidenceRow]]:
        mine = self._of_run(run_id)
        count = connection.execute(sa.select(sa.func.count(_COLUMNS.id)).where(*mine)).scalar() or 0
        first = sa.select(evidence_table).where(*mine, _COLUMNS.position == 0).order_by(_COLUMNS.id)
        return count, [_row(row) for row in connection.execute(first)]


def _row(row: Any) -> EvidenceRow:
    """A row of another format has no data that anybody here could read."""
    return EvidenceRow(
        run_id=row.run_id,
        part=row.part,
        position=row.position,
        window=row.window,
        width_s=row.width_s,
        at=row.at,
        data=row.data if row.format == FORMAT else b"",
    )


def read_recording(path: Path, rollout: str, *, run_id: str, since: float) -> list[EvidenceRow]:
    """The rows of a run, or with an empty ``run_id`` of all that was not judged, from wall time ``since`` on.

    Only those since the baseline was another arm for the last time. The file is opened for reading only: a gateway
    that writes it goes on, and keeps its lock. Without a log beside it nobody writes it, and none is made for reading.
    Raises StoreUnavailable.
    """
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    address = f"{path.absolute().as_uri()}?mode=ro{alone}"
    engine = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True, timeout=5.0))
    mine = (_COLUMNS.rollout == rollout, _COLUMNS.replica == REPLICA, _COLUMNS.run_id == run_id)
    try:
        with engine.connect() as connection:
            changed = connection.execute(_BASELINE_CHANGED, {"rollout": rollout}).scalar()
            begin = since if run_id else max(since, changed or since)
            asked = sa.select(evidence_table).where(*mine, _COLUMNS.at >= begin).order_by(_COLUMNS.id)
            return [_row(row) for row in connection.execute(asked)]
    except sa.exc.SQLAlchemyError as error:
        raise StoreUnavailable(f"{path}: {getattr(error, 'orig', None) or error}") from error
    finally:
        engine.dispose()
