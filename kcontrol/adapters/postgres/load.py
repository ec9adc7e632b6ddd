"""Rows into the table, batch by batch, in a transaction that is the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from kcontrol.adapters.postgres.rows import Row
from kcontrol.adapters.postgres.table import Table

STAGED = "kcontrol_staged"
_NUMBER, _DELETED = "kcontrol_number", "kcontrol_deleted"


class Loader:
    """Of one session. With keys, rows are collected in a table of the session's own, and the newest of each key goes into
    the target at the end. All methods raise errors of psycopg."""

    def __init__(self, session: Any, table: Table, keys: Sequence[str]) -> None:
        self._session = session
        self._keys = tuple(keys)
        self._number = 0
        names = [column.name for column in table.columns]
        self._names = {
            "table": sql.Identifier(table.schema, table.name),
            "staged": sql.Identifier("pg_temp", STAGED),
            "columns": _listed(names),
            "keys": _listed(keys),
            "number": sql.Identifier(_NUMBER),
            "deleted": sql.Identifier(_DELETED),
            "same": sql.SQL(" AND ").join(
                sql.SQL("{0}.{2} = {1}.{2}").format(
                    sql.Identifier("old"), sql.Identifier("new"), sql.Identifier(name)
                )
                for name in keys
            ),
        }
        rest = [sql.Identifier(name) for name in names if name not in keys]
        self._names["conflict"] = (
            sql.SQL("UPDATE SET ")
            + sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in rest)
            if rest
            else sql.SQL("NOTHING")
        )

    def prepare(self) -> None:
        """Once, before the first step."""
        if self._keys:
            self._run("DROP TABLE IF EXISTS {staged}")
            self._run(
                f"CREATE TEMPORARY TABLE {STAGED} ON COMMIT DELETE ROWS AS "
                "SELECT {columns}, 0::bigint AS {number}, false AS {deleted} FROM {table} WITH NO DATA"
            )

    def begin(self) -> None:
        """A step."""
        self._number = 0

    def add(self, rows: Sequence[Row]) -> None:
        """One batch, by COPY."""
        into = "{staged} ({columns}, {number}, {deleted})" if self._keys else "{table} ({columns})"
        query = sql.SQL("COPY " + into + " FROM STDIN").format(**self._names)
        with self._session.cursor() as cursor, cursor.copy(query) as copy:
            for row in rows:
                self._number += 1
                more = (self._number, "t" if row.deleted else "f") if self._keys else ()
                copy.write_row((*row.texts, *more))

    def finish(self) -> None:
        """What was collected goes into the table."""
        if not self._keys or not self._number:
            return
        newest = "SELECT DISTINCT ON ({keys}) * FROM {staged} ORDER BY {keys}, {number} DESC"
        self._run(
            'DELETE FROM {table} AS "old" USING (' + newest + ') AS "new" WHERE "new".{deleted} AND {same}'
        )
        self._run(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM ("
            + newest
            + ') AS "new" WHERE NOT {deleted} '
            "ON CONFLICT ({keys}) DO {conflict}"
        )

    def _run(self, query: str) -> None:
        self._session.execute(sql.SQL(query).format(**self._names))


def _listed(names: Sequence[str]) -> Any:
    return sql.SQL(", ").join(map(sql.Identifier, names))
