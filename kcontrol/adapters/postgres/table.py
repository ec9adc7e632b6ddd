"""The table that rows go into, as the database describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kcontrol.adapters.postgres.columns import Column
from kcontrol.errors import DeliveryHaltedError

_FIND = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_COLUMNS = """
SELECT a.attname, coalesce(e.typname, b.typname, t.typname), format_type(a.atttypid, a.atttypmod),
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END, e.oid IS NOT NULL,
       a.attnotnull OR (t.typtype = 'd' AND t.typnotnull), a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_type e ON t.typcategory = 'A' AND e.oid = t.typelem
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE = """
SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(
    (i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""
_WRITABLE_KINDS = "rp"


@dataclass(frozen=True, slots=True)
class Table:
    """columns: those that are written, in order. oid: a table that was made anew has another."""

    schema: str
    name: str
    oid: int
    columns: tuple[Column, ...]

    @property
    def text(self) -> str:
        """Its name with its schema's."""
        return f"{self.schema}.{self.name}"


def look_at(session: Any, asked: str, columns: Sequence[str], keys: Sequence[str], where: str) -> Table:
    """columns: that are written; (): all but those that the database fills in by itself. keys: tell rows apart; (): nothing
    does.

    Raises DeliveryHaltedError: there is no such table, column or key. Errors of psycopg.
    """
    found = session.execute(_FIND, (asked,)).fetchone()
    if found is None:
        raise DeliveryHaltedError(
            f"{where}: there is no table {asked!r}, or its schema may not be used: make it with CREATE TABLE, or give "
            "its name with its schema"
        )
    oid, schema, name, kind = found
    where = f"{where}, table {schema}.{name}"
    if (kind if isinstance(kind, str) else kind.decode()) not in _WRITABLE_KINDS:
        raise DeliveryHaltedError(f"{where}: it is a view or the like, and no table that rows are kept in")
    every = {row[0]: _column(row) for row in session.execute(_COLUMNS, (oid,)).fetchall()}
    wanted = list(columns) or [
        each.name for each in every.values() if not each.filled_in or each.name in keys
    ]
    for column in [*wanted, *keys]:
        if column not in every:
            raise DeliveryHaltedError(f"{where}: it has no column {column!r}; it has {', '.join(every)}")
        if every[column].generated:
            raise DeliveryHaltedError(
                f"{where}: column {column!r} is made by the database and can't be written"
            )
    missing = [key for key in keys if key not in wanted]
    left = [
        each.name
        for each in every.values()
        if each.not_null and not each.filled_in and each.name not in wanted
    ]
    if missing or left:
        raise DeliveryHaltedError(
            f"{where}: column {(missing + left)[0]!r} is needed and not among --columns {','.join(wanted)}: add it"
        )
    if not wanted:
        raise DeliveryHaltedError(f"{where}: it has no column that could be written")
    if keys and not any(
        sorted(names) == sorted(keys) for (names,) in session.execute(_UNIQUE, (oid,)).fetchall()
    ):
        raise DeliveryHaltedError(
            f"{where}: no primary key and no unique index is of {', '.join(keys)} alone, which upserts need: "
            f"ALTER TABLE {schema}.{name} ADD PRIMARY KEY ({', '.join(keys)})"
        )
    return Table(schema, name, oid, tuple(every[each] for each in wanted))


def _column(row: Sequence[Any]) -> Column:
    name, type_name, declared, modifier, is_array, not_null, filled_in, generated = row
    return Column(name, type_name, declared, modifier, is_array, not_null, filled_in or generated, generated)
