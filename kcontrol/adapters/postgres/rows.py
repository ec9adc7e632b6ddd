"""From the record of an output to the row of a table: which value goes into which column, and what can't."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kcontrol.adapters.postgres.columns import Column, to_text
from kcontrol.wire.fields import BadRowError, Fields, fields_of, shown

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """texts: by column, as PostgreSQL reads them. A row that is deleted has those of the key alone."""

    texts: Texts
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class RowRules:
    """How rows are made.

    value_format: 'json', 'avro' or 'raw'. schema: of Avro. keys: the columns that tell rows apart; (): every
    record is a row more. delete_when: a field and its text, of records that delete their row.
    """

    value_format: str
    schema: str = ""
    keys: tuple[str, ...] = ()
    delete_when: tuple[str, str] | None = None


class RowMaker:
    """For one table's columns, in their order."""

    def __init__(self, columns: Sequence[Column], rules: RowRules) -> None:
        """Raises ConfigurationError: the format is none, or lacks its schema."""
        self._columns = tuple(columns)
        self._rules = rules
        self._keys = frozenset(rules.keys)
        self._written = tuple(
            (column.name, column.name in self._keys, to_text(column), column) for column in columns
        )
        not_columns = {rules.delete_when[0]} if rules.delete_when else set()
        self._known = frozenset(column.name for column in columns) | not_columns
        self._fields = fields_of(rules.value_format, rules.schema)

    def make(self, key: bytes | None, value: bytes | None) -> Row:
        """Raises BadRowError."""
        try:
            return self._made(key, value)
        except RecursionError as error:
            raise BadRowError("it has so many values within values that it can't be written") from error

    def _made(self, key: bytes | None, value: bytes | None) -> Row:
        if value is None and self._rules.value_format != "raw":
            return self._tombstone(key)
        fields = self._fields(key, value)
        if not fields.keys() <= self._known:
            extra = min(fields.keys() - self._known)
            raise BadRowError(
                f"the table has no column {extra!r} that is written, for the value {shown(fields[extra])}"
            )
        deleted = self._deletes(fields)
        return Row(self._row(fields, only_keys=deleted), deleted)

    def _tombstone(self, key: bytes | None) -> Row:
        if not self._rules.keys:
            raise BadRowError(
                "the value is null, which deletes a row, and the mode is append: use --mode upsert"
            )
        if key is None:
            raise BadRowError(
                "the value is null, which deletes a row, and the record has no key that says which"
            )
        return Row(self._row(self._key_fields(key), only_keys=True), deleted=True)

    def _key_fields(self, key: bytes) -> Fields:
        try:
            text = key.decode()
            if len(self._rules.keys) > 1:
                fields = json.loads(text, parse_float=Decimal)
                if not isinstance(fields, dict) or fields.keys() != self._keys:
                    raise BadRowError(
                        f"the record's key {shown(text)} deletes a row, and is no JSON object of "
                        f"{', '.join(self._rules.keys)}"
                    )
                return fields
        except BadRowError:
            raise
        except (ValueError, ArithmeticError) as error:
            raise BadRowError(f"the record's key {shown(key)} can't be read: {error}") from error
        (name,) = self._rules.keys
        column = next(each for each in self._columns if each.name == name)
        return {name: _of_key(column, text)}

    def _deletes(self, fields: Fields) -> bool:
        when = self._rules.delete_when
        if when is None:
            return False
        value = fields.get(when[0])
        if isinstance(value, bool):
            # As JSON has it, however it is asked for.
            return str(value).lower() == when[1].lower()
        return value is not None and str(value) == when[1]

    def _row(self, fields: Fields, *, only_keys: bool) -> Texts:
        texts: list[str | None] = []
        for name, is_key, text_of, column in self._written:
            value = fields.get(name) if is_key or not only_keys else None
            if value is None:
                if is_key or (column.not_null and not only_keys):
                    why = "it is a key" if is_key else "it must not be null"
                    raise BadRowError(f"column {name!r} has no value, and {why}")
                texts.append(None)
                continue
            try:
                texts.append(text_of(value))
            except ValueError as error:
                raise BadRowError(
                    f"column {name!r} is {column.declared} and can't hold {shown(value)}: {error}"
                ) from error
        return tuple(texts)


def _of_key(column: Column, text: str) -> Any:
    """A record's key is text, whatever the column is."""
    if column.type_name in ("int2", "int4", "int8"):
        return int(text) if text.removeprefix("-").isdecimal() else text
    if column.type_name in ("float4", "float8", "numeric"):
        try:
            return Decimal(text)
        except ArithmeticError:
            return text
    if column.type_name == "bool":
        return {"true": True, "false": False}.get(text, text)
    return text
