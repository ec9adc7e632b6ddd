"""From the record of an output to a row: columns by name, keys, deletes, and what is no row."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from kcontrol.adapters.postgres.columns import Column
from kcontrol.adapters.postgres.rows import Row, RowMaker, RowRules
from kcontrol.errors import ConfigurationError
from kcontrol.wire.fields import BadRowError

COLUMNS = (
    Column("id", "int8", "bigint", not_null=True),
    Column("name", "text", "text"),
    Column("at", "timestamptz", "timestamp with time zone"),
)
SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def _json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_fields_go_into_the_columns_of_their_names_and_what_is_missing_is_null() -> None:
    maker = RowMaker(COLUMNS, RowRules("json"))
    assert maker.make(None, _json(name="x", id=7)) == Row(("7", "x", None))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"{", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"[1]", "no JSON object"),
        (_json(id=1, size=3), "no column 'size' that is written, for the value 3"),
        (_json(name="x"), "column 'id' has no value, and it must not be null"),
        (_json(id="1"), "column 'id' is bigint and can't hold '1': it is no whole number"),
        (_json(id=1, name="x" * 100 + "\0"), r"can't hold 'x+\.\.\.: it has a character of code 0"),
        (None, "the mode is append: use --mode upsert"),
    ],
)
def test_what_is_no_row_says_which_column_which_value_and_why(value: bytes | None, why: str) -> None:
    with pytest.raises(BadRowError, match=why):
        RowMaker(COLUMNS, RowRules("json")).make(b"1", value)


def test_a_null_value_deletes_the_row_of_its_key() -> None:
    one = RowMaker(COLUMNS, RowRules("json", keys=("id",)))
    assert one.make(b"7", None) == Row(("7", None, None), deleted=True)
    two = RowMaker(COLUMNS, RowRules("json", keys=("id", "name")))
    assert two.make(_json(id=7, name="x"), None) == Row(("7", "x", None), deleted=True)
    for maker, key, why in (
        (one, None, "has no key that says which"),
        (one, b"x", "column 'id' is bigint and can't hold 'x'"),
        (two, b"7", "is no JSON object of id, name"),
        (two, b"{", "can't be read"),
    ):
        with pytest.raises(BadRowError, match=why):
            maker.make(key, None)


def test_a_field_may_say_that_its_row_is_deleted() -> None:
    maker = RowMaker(COLUMNS, RowRules("json", keys=("id",), delete_when=("op", "d")))
    assert maker.make(None, _json(op="d", id=7, name="x")) == Row(("7", None, None), deleted=True)
    assert maker.make(None, _json(op="u", id=7, name="x")) == Row(("7", "x", None))


@pytest.mark.parametrize(
    ("asked", "value", "deleted"),
    [
        ("true", True, True),
        ("True", True, True),
        ("true", False, False),
        ("false", False, True),
        ("true", "true", True),
        ("true", "True", False),
        ("1", 1, True),
        ("1", True, False),
        ("None", None, False),
    ],
)
def test_what_says_so_is_compared_as_it_stands_in_the_record(
    asked: str, value: object, deleted: bool
) -> None:
    """Else `--delete-when gone=true` would keep each row whose record says true."""
    maker = RowMaker(COLUMNS, RowRules("json", keys=("id",), delete_when=("gone", asked)))
    assert maker.make(None, _json(gone=value, id=7, name="x")).deleted is deleted


def test_a_key_must_have_a_value() -> None:
    with pytest.raises(BadRowError, match="column 'name' has no value, and it is a key"):
        RowMaker(COLUMNS, RowRules("json", keys=("name",))).make(None, _json(id=1))


def test_avro_by_its_schema_to_its_last_byte() -> None:
    maker = RowMaker(COLUMNS, RowRules("avro", json.dumps(SCHEMA)))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, SCHEMA, {"id": 7, "name": "x", "at": 1_000})
    assert maker.make(None, written.getvalue()) == Row(("7", "x", "1970-01-01T00:00:01+00:00"))
    for value, why in (
        (written.getvalue() + b"x", "bytes are left over"),
        (b"\x0e", "not what the Avro schema says"),
    ):
        with pytest.raises(BadRowError, match=why):
            maker.make(None, value)
    with pytest.raises(ConfigurationError, match="--schema FILE"):
        RowMaker(COLUMNS, RowRules("avro"))


def test_raw_records_have_two_columns() -> None:
    columns = (Column("key", "text", "text"), Column("value", "bytea", "bytea"))
    assert RowMaker(columns, RowRules("raw")).make(b"k", b"\0") == Row(("k", "\\x00"))
    assert RowMaker(columns, RowRules("raw")).make(None, None) == Row((None, None))
