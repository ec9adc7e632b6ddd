"""Whatever bytes a producer sends as an Avro value are a row that its columns hold or a
bad record, and fastavro agrees.

Where the two verdicts differ, ours says why: docs/values.md tells which.
"""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from kcontrol.adapters.spark.values.avro_columns import ValueReader
from kcontrol.adapters.spark.values.avro_types import spark_type
from tests.property.values.mutations import SCHEMAS, mutations

SEED = 20_261_122
FEW, MANY = 300, 100_000
"""For each schema."""
MAX_CELLS = 1_000

STRICTER = (
    "a boolean is",
    "a union of",
    "an enumeration of",
    "a number does not fit",
    "it ends too early, or a number has more than",
    "bytes are to follow",
    "a block",
    "items are to follow, for which too few",
    "its arrays and maps hold more than max_cells",
    "a decimal has more than",
)
"""What fastavro takes and we do not. A part of each reason."""
FREE_ITEMS = 4
"""The schema with an array whose items take no bytes: of a bad value fastavro may make a list of 10**18 of
them first."""


class Judges:
    """Ours and fastavro, on one schema."""

    def __init__(self, schema: dict[str, Any], ask_about_bad: bool) -> None:
        self._ask_about_bad = ask_about_bad
        kind = spark_type(schema, "here")
        assert isinstance(kind, StructType)
        self._ours = ValueReader(json.dumps(schema), "bad", MAX_CELLS)
        self._type = to_arrow_type(
            StructType([*kind.fields, StructField("bad", StringType())]), timezone="UTC"
        )
        self._fast = fastavro.parse_schema(_without_uuid(schema))

    def compare(self, value: bytes) -> str:
        """The difference, '' if there is none."""
        row = self._ours.read(value)
        column = pa.array([row], self._type)
        column.validate(full=True)
        bad: str | None = row["bad"]
        if bad is not None and not self._ask_about_bad:
            return ""
        theirs = self._theirs(value)
        if bad is not None:
            return "" if theirs is None else bad
        assert theirs is not None, f"fastavro refuses {value.hex()}, of which we make {row}"
        assert repr(column.to_pylist()) == repr(theirs.to_pylist()), value.hex()
        return ""

    def _theirs(self, value: bytes) -> pa.Array | None:
        body = BytesIO(value)
        try:
            row = fastavro.schemaless_reader(body, self._fast, None)
            return pa.array([row], self._type) if body.tell() == len(value) else None
        except Exception:  # noqa: BLE001 - fastavro raises whatever broken bytes lead it to
            return None


def _without_uuid(schema: dict[str, Any]) -> dict[str, Any]:
    """The columns are text, which is what the bytes are."""
    plain = copy.deepcopy(schema)
    for field in plain["fields"]:
        if isinstance(field["type"], dict) and field["type"].get("logicalType") == "uuid":
            field["type"] = "string"
    return plain


def judge(number: int, count: int) -> Counter[str]:
    judges = Judges(SCHEMAS[number], number != FREE_ITEMS)
    found: Counter[str] = Counter()
    for value in mutations(SCHEMAS[number], count, SEED + number):
        difference = judges.compare(value)
        known = next((reason for reason in STRICTER if reason in difference), difference)
        found[known] += 1
        assert known in ("", *STRICTER), f"{difference}: {value.hex()}"
    return found


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_damaged_values_are_rows_or_bad_records(number: int) -> None:
    assert judge(number, FEW)[""] > FEW // 4


@pytest.mark.heavy
@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_a_million_damaged_values_are_rows_or_bad_records(number: int) -> None:
    """100,000 of each schema."""
    sys.stdout.write(f"seed {SEED + number}: {dict(judge(number, MANY))}\n")
