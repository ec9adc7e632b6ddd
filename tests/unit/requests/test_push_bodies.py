"""Rows out of bodies, and what is wrong with those that are refused."""

from __future__ import annotations

import json

import pytest

from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.bodies import CSV, JSON, NDJSON, BadRowsError, InputRow, content_of, rows_of
from kcontrol.requests.push.limits import BodyLimits, OversizedPushError, Rules
from kcontrol.requests.push.schema import row_kind
from tests.support.json_values import BAD, JSON_VALUES, SCHEMA

DDL = (
    "user STRING NOT NULL, amount INT, price DECIMAL(5,2), at TIMESTAMP, day DATE COMMENT 'its, day', `a b` DOUBLE, "
    "raw BINARY, ok BOOLEAN, local TIMESTAMP_NTZ, tags ARRAY<STRUCT<name: STRING, size: MAP<STRING, TINYINT>>>, "
    "odd INTERVAL DAY TO SECOND"
)


REFUSED = (
    "fields that the schema does not have",
    "a key twice",
    "nested 500 deep, in a field that is not read",
    "single quotes",
    "NaN",
    "-Infinity",
    "an escaped lone surrogate",
)
"""Spark passes over what it does not know, takes what is no JSON, and puts something else in place of what is no character."""
OTHER_ROWS = ("several objects, a line each", "a byte order mark")
"""As a body these are rows that are fine."""


def rules(schema: str = DDL, key: str = "", **limits: int) -> Rules:
    return Rules("input 'i'", row_kind(schema), raw=False, key=key, limits=BodyLimits(**limits))


def values(body: str, kind: str = NDJSON, **more: str) -> list[bytes]:
    return [row.value for row in rows_of(body.encode(), kind, rules(**more))]


def test_json_stays_as_it_was_written() -> None:
    exact = '{"price":1.10,"a b":1e300, "user":"\\u00e9"}'
    assert values(f"\n{exact}\r\n\n") == [exact.encode()]
    assert values(f" [ {exact} ,\n{exact}] ", JSON) == [exact.encode()] * 2
    assert values('﻿{"user":"with a byte order mark"}') == [b'{"user":"with a byte order mark"}']


def test_csv_becomes_json_by_the_types_of_its_fields() -> None:
    body = 'user,amount,price,ok,tags,day\n"a ""b"",\nc", 7 ,1.10,true,"[{""name"":""x""}]",2026-01-31\n\nbob,,,,,\n'
    first, second = (json.loads(each) for each in values(body, CSV))
    tags = [{"name": "x"}]
    assert first == {
        "user": 'a "b",\nc',
        "amount": 7,
        "price": 1.1,
        "ok": True,
        "tags": tags,
        "day": "2026-01-31",
    }
    assert second == {"user": "bob"}
    assert values('user\n"12"\n', CSV) == [b'{"user":"12"}']


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"amount":1.0}', "field 'amount': 1.0 is not INT"),
        ('{"amount":true}', "field 'amount': True is not INT"),
        ('{"amount":2147483648}', "2147483648 does not fit into INT"),
        ('{"price":12345}', "12345 does not fit into DECIMAL(5,2)"),
        ('{"at":"yesterday"}', "'yesterday' is not a time such as"),
        ('{"at":"2026-02-30"}', "is not a time such as"),
        ('{"at":"2026-02-03T25:00:00"}', "is not a time such as"),
        ('{"day":7}', "7 is not a date such as"),
        ('{"a b":"one"}', "'one' is not a number"),
        ('{"raw":"?"}', "is not bytes in base64"),
        ('{"raw":"aGkx="}', "is not bytes in base64"),
        ('{"raw":"=="}', "is not bytes in base64"),
        ('{"ok":1}', "1 is not true or false"),
        ('{"at":"2026-01-31T12:00:00+18:01"}', "is not a time such as"),
        ('{"at":"2026-01-31T12:00:00-01:60"}', "is not a time such as"),
        ('{"at":1769860800000}', "is not in the years 1 to 9999: a number is seconds since 1970"),
        ('{"local":1769860800}', "1769860800 is not a time without a zone"),
        ('{"local":"2026-01-31T12:00:00Z"}', "is not a time without a zone such as 2026-01-31T12:00:00"),
        ('{"amount":"x","amount":1}', "row 2 has the field 'amount' twice"),
        ('{"tags":[{"name":1,"size":{},"name":2}]}', "field 'tags'[0]: has the field 'name' twice"),
        ('{"tags":[{"size":{"x":1,"x":2}}]}', "field 'size' has the key 'x' twice"),
        (
            '{"tags":[null,{"size":{"x":128}}]}',
            "field 'tags'[1]: field 'size'['x']: 128 does not fit into TINYINT",
        ),
        ('{"tags":[{"nmae":"x"}]}', "did you mean 'name'?"),
        (
            '{"usr":"x"}',
            "has a field 'usr', which the schema of the input does not have; did you mean 'user'?",
        ),
        ("[]", "row 2 is [], and must be an object"),
        ('{"a b":NaN}', "NaN is no number of JSON"),
        ('{"user":"\\ud800"}', "half of a pair of surrogates in the field 'user', which is no character"),
        ('{"user":{"\\uDFFF":[]}}', "half of a pair of surrogates in the field 'user'"),
        ('{"tags":[{"name":"a\\ud83d"}]}', "half of a pair of surrogates in the field 'tags'"),
        ('{"user":"\\ud83d\\ude00 \\\\ud800"}', None),
        ("{" * 100_000, "is not JSON"),
    ],
)
def test_a_row_that_is_wrong_is_named_with_why(row: str, said: str | None) -> None:
    body = f'{{"user":"fine"}}\n{row}'
    if said is None:
        assert len(values(body)) == 2
        return
    with pytest.raises(ConfigurationError) as raised:
        values(body)
    assert said in str(raised.value)
    assert "row 2" in str(raised.value)


def test_what_spark_takes_is_taken() -> None:
    row = {
        "user": {"any": ["value"]},
        "a b": "NaN",
        "at": "2026-01-31T12:00:00.123456+02:00",
        "day": None,
        "raw": "aGk=",
        "odd": "whatever",
    }
    assert values(json.dumps(row)) == [json.dumps(row).encode()]
    for taken in (
        '{"at":1769860800}',
        '{"at":"2026-01-31T12:00:00+1800"}',
        '{"local":"2026-01-31 12:00:00.5"}',
        '{"user":{"a":1,"a":2}}',
        '{"a b":"-INF"}',
    ):
        assert values(taken) == [taken.encode()]


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("user,nothing\n", CSV, "the first line of the CSV has a field 'nothing'"),
        ("user,user\n", CSV, "has the field 'user' twice"),
        ("user,amount\nx\n", CSV, "row 1 (line 2) has 1 cells"),
        ('user\n"x', CSV, "is not CSV"),
        ("amount\nx1\n", CSV, "'x1' is not INT"),
        ("user\n", CSV, "there are no rows"),
        ("{}", JSON, "must be an array of rows"),
        ("[{}", JSON, "a comma or ] is missing behind row 1"),
        ("[{}] []", JSON, "something follows the array"),
        ("[{},]", JSON, "row 2 is not JSON"),
        ("[]", JSON, "there are no rows"),
    ],
)
def test_a_body_that_is_wrong_is_refused_whole(body: str, kind: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        values(body, kind)
    assert said in str(raised.value)


@pytest.mark.parametrize("what", JSON_VALUES)
def test_nothing_is_taken_that_spark_does_not_take(what: str) -> None:
    """tests/integration/spark/test_formats.py holds the table against Spark."""
    value, becomes = JSON_VALUES[what]
    try:
        rows_of(value, NDJSON, rules(SCHEMA))
    except ConfigurationError:
        assert becomes == BAD or what in REFUSED, what
    else:
        assert becomes != BAD or what in OTHER_ROWS, what


def test_a_decimal_that_is_rounded_up_has_to_fit() -> None:
    assert values('{"price":999.994}') == [b'{"price":999.994}']
    with pytest.raises(ConfigurationError, match=r"does not fit into DECIMAL\(5,2\)"):
        values('{"price":999.995}')


def test_keys_are_made_of_a_field() -> None:
    body = b'{"user":"ann"}\n{"user":"bob"}'
    assert [row.key for row in rows_of(body, NDJSON, rules(key="user"))] == [b"ann", b"bob"]
    with pytest.raises(ConfigurationError, match="row 1 has no text or whole number in the field 'amount'"):
        rows_of(body, NDJSON, rules(key="amount"))
    with pytest.raises(BadRowsError, match="row 1 has half of a pair of surrogates in the field 'user'"):
        rows_of(b'{"user":"\\ud800"}', NDJSON, rules(key="user"))


def test_limits_are_told() -> None:
    with pytest.raises(ConfigurationError, match="there are more than 1 rows"):
        rows_of(b"{}\n{}", NDJSON, rules(rows=1))
    with pytest.raises(ConfigurationError, match="row 1 has 14 bytes, 10 are the most"):
        rows_of(b'{"user":"ann"}', NDJSON, rules(row_bytes=10))


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_cell_of_csv_may_be_as_long_as_a_row(quote: str) -> None:
    for characters in (200_000, 899_989):
        body = f"user\n{quote}{'x' * characters}{quote}\n".encode()
        [row] = rows_of(body, CSV, rules())
        assert len(row.value) == characters + len('{"user":""}')
    for characters in (899_990, 900_001):
        body = f"user\n{quote}{'x' * characters}{quote}\n".encode()
        with pytest.raises(OversizedPushError, match="900000"):
            rows_of(body, CSV, rules())


def test_what_is_told_of_a_long_name_is_short() -> None:
    long = "x" * 100_000
    for row in (f'{{"{long}":1}}', f'{{"tags":[{{"size":{{"{long}":1000}}}}]}}'):
        with pytest.raises(ConfigurationError) as raised:
            values(row)
        assert len(str(raised.value)) < 500


def test_a_schema_may_be_sparks_json_or_unknown() -> None:
    spark = {
        "type": "struct",
        "fields": [
            {"name": "n", "type": "decimal(3,1)", "nullable": True, "metadata": {}},
            {
                "name": "a",
                "type": {"type": "array", "elementType": "long", "containsNull": True},
                "nullable": True,
            },
            {
                "name": "m",
                "type": {"type": "map", "keyType": "string", "valueType": {"type": "struct", "fields": []}},
            },
        ],
    }
    text = json.dumps(spark)
    assert values('{"n":10.5,"a":[1],"m":{"x":{}}}', schema=text)
    for wrong in ('{"n":100}', '{"a":[1.5]}', '{"m":{"x":{"y":1}}}'):
        with pytest.raises(ConfigurationError):
            values(wrong, schema=text)
    assert values('{"anything":1}', schema="") == [b'{"anything":1}']
    with pytest.raises(ConfigurationError, match="CSV needs the types"):
        values("a\n1\n", CSV, schema="")


def test_the_content_of_rows_tells_keys_and_values_apart() -> None:
    one = [InputRow(b"ab", b"c"), InputRow(None, b"d")]
    others = [
        [InputRow(b"a", b"bc"), InputRow(None, b"d")],
        [InputRow(b"ab", b"c"), InputRow(b"", b"d")],
        [InputRow(b"ab", b"cd")],
        one[::-1],
    ]
    assert content_of(one) == content_of(list(one))
    assert all(content_of(other) != content_of(one) for other in others)
