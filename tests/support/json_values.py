"""What JSON values give: docs/values.md has the same table, and the engine must do as it
says, in first run and replay."""

from __future__ import annotations

from typing import Any

SCHEMA = "s string, n int, big long, x double, d decimal(5,2), t timestamp, list array<int>, b boolean, z timestamp_ntz"
BAD = "bad"

JSON_VALUES: dict[str, tuple[bytes, Any]] = {
    "an object": (b'{"s": "a", "n": 1, "x": 0.5, "b": true}', {"s": "a", "n": 1, "x": 0.5, "b": True}),
    "an object without fields": (b"{}", {}),
    "white space around it": (b' \n {"n": 1}\t ', {"n": 1}),
    "fields that the schema does not have": (b'{"n": 1, "more": {"a": [1]}}', {"n": 1}),
    "null": (b"null", BAD),
    "an empty value": (b"", BAD),
    "a number, a text, true": (b"5", BAD),
    "an array": (b'[{"n": 1}, {"n": 2}]', BAD),
    "an array of one object": (b'[{"n": 1}]', BAD),
    "several objects": (b'{"n": 1}{"n": 2}', BAD),
    "several objects, a line each": (b'{"n": 1}\n{"n": 2}', BAD),
    "several objects with commas": (b'{"n": 1}, {"n": 2}', BAD),
    "an object and something after it": (b'{"n": 1} x', BAD),
    "an object and a bracket too many": (b'{"n": 1}}', BAD),
    "an object that does not end": (b'{"n": 1', BAD),
    "a comma after the last field": (b'{"n": 1,}', BAD),
    "a comment": (b'{"n": 1 /* one */}', BAD),
    "single quotes": (b"{'n': 1}", {"n": 1}),
    "a key twice": (b'{"n": 1, "n": 2}', {"n": 2}),
    "a key twice, first with a text for a number": (b'{"n": "x", "n": 1}', BAD),
    "a text for a number": (b'{"n": "1"}', BAD),
    "a number for a text": (b'{"s": 1.50}', {"s": "1.5"}),
    "an object for a text": (b'{"s": {"a": 1}}', {"s": '{"a":1}'}),
    "an int of 2,147,483,648": (b'{"n": 2147483648}', BAD),
    "a long of 2**63": (b'{"big": 9223372036854775808}', BAD),
    "a fraction for an int": (b'{"n": 1.5}', BAD),
    "a decimal(5,2) of 1,000": (b'{"d": 1000}', BAD),
    "a decimal(5,2) of 1.239": (b'{"d": 1.239}', {"d": 1.24}),
    "a decimal(5,2) of 1e-99999": (b'{"d": 1e-99999}', {"d": 0.0}),
    "a decimal(5,2) of 1e-500000000": (b'{"d": 1e-500000000}', BAD),
    "a decimal(5,2) of 0e500000000": (b'{"d": 0e500000000}', BAD),
    "a decimal(5,2) of 1e-500000000 as a text": (b'{"d": "1e-500000000"}', BAD),
    "the same with escapes": (b'{"d": "\\u0031\\u0065-500000000"}', BAD),
    "the same, and no JSON": (b'{"d": 1e-500000000, }', BAD),
    "a text of 12e500000": (b'{"s": "12e500000", "d": 1, "n": 1}', {"s": "12e500000", "d": 1.0, "n": 1}),
    "a text of quotes and 12e500000": (b'{"s": "\\"12e500000, ", "d": 1}', {"s": '"12e500000, ', "d": 1.0}),
    "a double of 1e-500000 beside a decimal": (b'{"x": 1e-500000, "d": 1}', BAD),
    "a double of 1e400": (b'{"x": 1e400}', {"x": "Infinity"}),
    "NaN": (b'{"x": NaN}', {"x": "NaN"}),
    "-Infinity": (b'{"x": -Infinity}', {"x": "-Infinity"}),
    "NaN as a text for a double": (b'{"x": "NaN"}', {"x": "NaN"}),
    "INF as a text for a double": (b'{"x": "INF"}', BAD),
    "a number of 2,000 digits": (b'{"x": ' + b"1" * 2_000 + b"}", BAD),
    "a leading zero": (b'{"n": 01}', BAD),
    "a timestamp that is none": (b'{"t": "yesterday"}', BAD),
    "a timestamp in a zone of 18 hours": (
        b'{"t": "2026-01-31T12:00:00+18:00"}',
        {"t": "2026-01-30T18:00:00.000Z"},
    ),
    "a timestamp in a zone of 19 hours": (b'{"t": "2026-01-31T12:00:00+19:00"}', BAD),
    "a timestamp in seconds": (b'{"t": 1769860800}', {"t": "2026-01-31T12:00:00.000Z"}),
    "a timestamp_ntz": (b'{"z": "2026-01-31T12:00:00"}', {"z": "2026-01-31T12:00:00.000"}),
    "a timestamp_ntz with a zone": (b'{"z": "2026-01-31T12:00:00Z"}', BAD),
    "a timestamp_ntz in seconds": (b'{"z": 1769860800}', BAD),
    "a null in an array": (b'{"list": [1, null]}', {"list": [1, None]}),
    "a text in an array of numbers": (b'{"list": [1, "a"]}', BAD),
    "nested 500 deep, in a field that is not read": (
        b'{"n": 1, "a": ' + b"[" * 500 + b"]" * 500 + b"}",
        {"n": 1},
    ),
    "nested 100,000 deep": (b'{"n": 1, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", BAD),
    "bytes that are not UTF-8": (b'{"s": "\xff"}', BAD),
    "a surrogate in UTF-8's form (CESU-8)": (b'{"s": "\xed\xa0\x80"}', BAD),
    "an escaped pair of surrogates": (b'{"s": "\\ud83d\\ude00"}', {"s": "\U0001f600"}),
    "an escaped lone surrogate": (b'{"s": "\\ud800"}', {"s": "?"}),
    "UTF-16": ('{"n": 1}'.encode("utf-16"), BAD),
    "UTF-16 without a mark": ('{"n": 1}'.encode("utf-16-le"), BAD),
    "a byte order mark": (b'\xef\xbb\xbf{"n": 1}', BAD),
    "a control character in a text": (b'{"s": "a\x01"}', BAD),
    "an escaped NUL": (b'{"s": "a\\u0000"}', {"s": "a\x00"}),
}
"""By what it is: the value, and BAD or the fields of the row that are not null (doubles that are no numbers
as text)."""
