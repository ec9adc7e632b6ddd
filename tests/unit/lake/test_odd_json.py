"""Values of JSON that are no value of a column, each a bad row: none ends the process, or takes time or memory to say so."""

from __future__ import annotations

import pytest

from kcontrol.adapters.lake.rows import BatchMaker, BatchRules
from kcontrol.adapters.lake.types import schema_of
from kcontrol.core.step.following import RecordPlace
from tests.support.odd_json import NUMBERS, TEXTS

TYPES = (
    *(
        "DECIMAL(5,2)",
        "DECIMAL(38,2)",
        "DECIMAL(38,0)",
        "DOUBLE",
        "FLOAT",
        "BIGINT",
        "STRING",
        "BINARY",
        "DATE",
    ),
    *("TIMESTAMP", "ARRAY<STRING>", "MAP<STRING, INT>", "STRUCT<a: ARRAY<STRING>>"),
)


def _made(ddl: str, *values: str) -> tuple[list[object], int]:
    """The rows, and how many values were none."""
    maker = BatchMaker("table", schema_of(ddl), BatchRules("json", skips_bad_rows=True))
    records = [(None, f'{{"c": {value}}}'.encode(), RecordPlace(0, at)) for at, value in enumerate(values)]
    rows = [row["c"] for batch in maker.batches(1, records, lambda: None) for row in batch.to_pylist()]
    assert len(rows) == maker.rows
    return rows, maker.bad_rows


@pytest.mark.parametrize("kind", TYPES)
def test_an_odd_value_is_a_bad_row_or_one_that_can_be_written(kind: str) -> None:
    for value in (*NUMBERS, *TEXTS):
        rows, bad = _made(f"c {kind}", value)
        assert len(rows) + bad == 1


def test_decimals_are_what_they_are_or_none() -> None:
    rows, bad = _made(
        "c DECIMAL(5,2)", "1e-999999999", "0e-999999999", "0e999999999", "1e2", "1." + "0" * 3_000, "1.001"
    )
    assert ([str(row) for row in rows], bad) == (["0.00", "0.00", "100.00", "1.00"], 2)


def test_halves_of_surrogates_are_bad_rows() -> None:
    rows, bad = _made("c STRING", '"\\ud800"', '"fine"', '"\\ud83d\\ude00"')
    assert (rows, bad) == (["fine", "\U0001f600"], 1)
