"""The table `kcontrol_steps`, beside the target: up to which step it was delivered to, and by whom.

Its row is locked and compared in the transaction of each step. `fence` grows whenever a deliverer takes the delivery
over: one that was replaced finds another number there and applies nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import sql

from kcontrol.adapters.postgres.table import Table
from kcontrol.core.step.following import Applied, Guarantee
from kcontrol.errors import DeliveryHaltedError

NAME = "kcontrol_steps"
_COLUMNS = """
    pipeline text NOT NULL,
    output text NOT NULL,
    target text NOT NULL,
    target_oid bigint NOT NULL,
    guarantee text NOT NULL,
    log_id text NOT NULL,
    step bigint NOT NULL,
    print text NOT NULL,
    rows bigint NOT NULL,
    bad_rows bigint NOT NULL,
    step_committed_at timestamptz,
    applied_at timestamptz,
    fence bigint NOT NULL,
    holder text NOT NULL,
    seen_at timestamptz NOT NULL,
    last_in_log bigint NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (pipeline, output, target)
"""


_HELD = (
    "pipeline, log_id, step, print, target_oid, fence, holder, "
    "extract(epoch FROM clock_timestamp() - seen_at)::float8"
)

_END_OVERDUE = """
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(%s, 0)
    AND a.usename = current_user AND a.state = 'active'
    AND a.query_start < clock_timestamp() - make_interval(secs => %s)
"""


@dataclass(frozen=True, slots=True)
class HeldDelivery:
    """A row of it."""

    applied: Applied
    target_oid: int
    fence: int
    holder: str
    silent_s: float


class StepRecord:
    """The row of one delivery. All methods raise errors of psycopg."""

    def __init__(self, session: Any, table: Table, pipeline: str, output: str) -> None:
        self._session = session
        self._table = table
        self._names = (pipeline, output, table.name)
        self._own = sql.Identifier(table.schema, NAME)
        self._where = "WHERE pipeline = %s AND output = %s AND target = %s"

    def make_table(self) -> None:
        """If there is none. Two that begin at once do so one after the other."""
        if self._session.execute("SELECT to_regclass(%s)", (self._quoted(),)).fetchone()[0] is not None:
            return
        with self._session.transaction():
            self._session.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._quoted(),))
            self._run("CREATE TABLE IF NOT EXISTS {own} (" + _COLUMNS + ")")

    def try_lock(self) -> bool:
        """Whether this session is the only one that has the delivery; it is let go with the session."""
        query = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
        return bool(self._session.execute(query, (self._lock_text(),)).fetchone()[0])

    def end_overdue(self, longest_s: float) -> None:
        """End the session that has the delivery, if it is in one statement for longer than that: its process hangs while it
        sends rows, and the server, which waits for them, looks at no `statement_timeout`."""
        self._session.execute(_END_OVERDUE, (self._lock_text(), longest_s))

    def _lock_text(self) -> str:
        return f"{self._quoted()} {'/'.join(self._names)}"

    def read(self, *, lock: bool = False) -> HeldDelivery | None:
        """lock: nobody else changes it before the transaction's end."""
        found = self._run(
            "SELECT " + _HELD + " FROM {own} " + self._where + (" FOR UPDATE" if lock else ""), self._names
        ).fetchone()
        return None if found is None else _held(found)

    def begin(self, log_id: str, step: int) -> None:
        """A first row, unless there is one: the target has nothing, and `step` counts as its last one."""
        self._run(
            "INSERT INTO {own} VALUES (%s, %s, %s, %s, %s, %s, %s, '', 0, 0, NULL, NULL, 0, '', 'epoch', 0, 'new', '') "
            "ON CONFLICT DO NOTHING",
            (*self._names, self._table.oid, Guarantee.EXACTLY_ONCE.value, log_id, step),
        )

    def forget(self) -> None:
        """What was delivered, if the table is empty. Raises DeliveryHaltedError: it is not."""
        with self._session.transaction():
            self.read(lock=True)
            table = sql.Identifier(self._table.schema, self._table.name)
            some = self._session.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(table)).fetchone()
            if some is not None:
                raise DeliveryHaltedError(
                    f"table {self._table.text} is not empty, so nothing begins anew: TRUNCATE {self._table.text} first"
                )
            self._run("DELETE FROM {own} " + self._where, self._names)

    def take(self, holder: str, silence_s: float | None) -> HeldDelivery | None:
        """Have the delivery: whoever had it is fenced from now on.

        silence_s: only from one that was silent for so long, now that its last transaction is over; None: from anybody.
        None: there is no such row.
        """
        silent = "" if silence_s is None else " AND seen_at <= clock_timestamp() - make_interval(secs => %s)"
        found = self._run(
            "UPDATE {own} SET fence = fence + 1, holder = %s, seen_at = clock_timestamp(), state = 'running', "
            "reason = '' " + self._where + silent + " RETURNING " + _HELD,
            (holder, *self._names, *(() if silence_s is None else (silence_s,))),
        ).fetchone()
        return None if found is None else _held(found)

    def adopt(self) -> None:
        """The table that there is now holds what was delivered."""
        self._run("UPDATE {own} SET target_oid = %s " + self._where, (self._table.oid, *self._names))

    def applied(self, now: Applied, committed_ms: int, rows: int, bad_rows: int) -> bool:
        """A step more, in the transaction that applies it; whether its rows went into the table that has the others. Until the
        transaction's end no other one can take that one's name."""
        table = sql.Identifier(self._table.schema, self._table.name).as_string(self._session)
        changed = self._run(
            "UPDATE {own} SET step = %s, print = %s, rows = rows + %s, bad_rows = bad_rows + %s, "
            "step_committed_at = to_timestamp(%s / 1000.0), applied_at = clock_timestamp(), "
            "seen_at = clock_timestamp(), last_in_log = greatest(last_in_log, %s) "
            + self._where
            + " AND target_oid = to_regclass(%s)::oid::bigint",
            (now.step, now.print, rows, bad_rows, committed_ms, now.step, *self._names, table),
        )
        return bool(changed.rowcount == 1)

    def beat(self, holder: str, fence: int, last_in_log: int) -> bool:
        """Say that the holder is there; whether it still is the holder."""
        changed = self._run(
            "UPDATE {own} SET seen_at = clock_timestamp(), last_in_log = %s "
            + self._where
            + " AND holder = %s AND fence = %s",
            (last_in_log, *self._names, holder, fence),
        )
        return bool(changed.rowcount == 1)

    def halted(self, holder: str, fence: int, reason: str) -> None:
        """For whoever looks at the table."""
        self._run(
            "UPDATE {own} SET state = 'halted', reason = %s "
            + self._where
            + " AND holder = %s AND fence = %s",
            (reason, *self._names, holder, fence),
        )

    def _run(self, query: str, values: tuple[object, ...] = ()) -> Any:
        return self._session.execute(sql.SQL(query).format(own=self._own), values)

    def _quoted(self) -> str:
        return str(self._own.as_string(self._session))


def _held(found: Any) -> HeldDelivery:
    pipeline, log_id, step, its_print, oid, fence, holder, silent_s = found
    return HeldDelivery(Applied(pipeline, log_id, step, its_print), oid, fence, holder, silent_s)
