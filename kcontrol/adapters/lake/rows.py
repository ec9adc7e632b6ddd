"""From the records of a step to batches of rows, in the columns of a table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kcontrol.adapters.lake.values import rule_for
from kcontrol.core.step.following import PlacedRecords
from kcontrol.errors import DeliveryHaltedError
from kcontrol.wire.fields import BadRowError, fields_of, shown

_log = logging.getLogger("kcontrol.deliver")

BAD_ROWS_TOLD = 3
"""Of a step, one by one; of the others only how many they are."""


@dataclass(frozen=True, slots=True)
class BatchRules:
    """value_format: 'json', 'avro' or 'raw'. schema: of Avro. batch_rows: in memory at a time. skips_bad_rows: and counts them,
    instead of halting."""

    value_format: str
    schema: str = ""
    batch_rows: int = 50_000
    skips_bad_rows: bool = False


class BatchMaker:
    """For the columns of one table."""

    def __init__(self, where: str, schema: pa.Schema, rules: BatchRules) -> None:
        """where: the table, for messages. Raises ConfigurationError: the format is none, or lacks its schema;
        DeliveryHaltedError: a column has a type that nothing can be written into."""
        self._where, self._schema = where, schema
        self._fields = fields_of(rules.value_format, rules.schema)
        self._is_raw = rules.value_format == "raw"
        self._batch_rows, self._skips = rules.batch_rows, rules.skips_bad_rows
        self._names = frozenset(schema.names)
        self._columns = [(field, rule_for(field.type)) for field in schema]
        bad = next((field for field, rule in self._columns if rule is None), None)
        if bad is not None:
            raise DeliveryHaltedError(
                f"{where}: column {bad.name!r} is {bad.type}, which kcontrol deliver can't write"
            )
        self.rows = self.bad_rows = 0

    def batches(
        self, step: int, records: PlacedRecords, beat: Callable[[], None]
    ) -> Iterator[pa.RecordBatch]:
        """Of a step; `rows` and `bad_rows` are counted on the way. beat: called once for each batch. Raises
        DeliveryHaltedError: a record is no row."""
        self.rows = self.bad_rows = 0
        columns: list[list[Any]] = [[] for _ in self._columns]
        for key, value, place in records:
            try:
                row = self._row(key, value)
            except BadRowError as error:
                self._bad(f"step {step}, {place}: {error}", error)
                continue
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
            self.rows += 1
            if len(columns[0]) >= self._batch_rows:
                beat()
                yield self._batch(columns)
                columns = [[] for _ in self._columns]
        if columns[0]:
            beat()
            yield self._batch(columns)
        if self.bad_rows > BAD_ROWS_TOLD:
            _log.warning("step %d: %d bad rows were left out", step, self.bad_rows)

    def _bad(self, said: str, error: BadRowError) -> None:
        if not self._skips:
            raise DeliveryHaltedError(
                f"{self._where}: {said}. Nothing of the step was applied: change the table, or leave such rows out with "
                "--on-bad-row skip"
            ) from error
        self.bad_rows += 1
        if self.bad_rows <= BAD_ROWS_TOLD:
            _log.warning("left out: %s", said)

    def _batch(self, columns: list[list[Any]]) -> pa.RecordBatch:
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _row(self, key: bytes | None, value: bytes | None) -> list[Any]:
        if value is None and not self._is_raw:
            raise BadRowError(
                "the value is null, which deletes a row, and rows are only added to such a table"
            )
        fields = self._fields(key, value)
        extra = fields.keys() - self._names
        if extra:
            raise BadRowError(
                f"the table has no column {min(extra)!r}, for the value {shown(fields[min(extra)])}"
            )
        return [self._cell(field, rule, fields.get(field.name)) for field, rule in self._columns]

    def _cell(self, field: pa.Field, rule: Any, value: Any) -> Any:
        if value is None:
            if not field.nullable:
                raise BadRowError(f"column {field.name!r} has no value, and it must not be null")
            return None
        try:
            return rule(value)
        except ValueError as error:
            raise BadRowError(
                f"column {field.name!r} is {field.type} and can't hold {shown(value)}: {error}"
            ) from error
