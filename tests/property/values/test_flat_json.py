"""Flat JSON objects, taken apart by the compiled loop: what it takes is parsed by Arrow, and by Python, to the same, and
what is no such object it does not take."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json
import pytest

from kcontrol.wire.batches.columns import bytes_column
from kcontrol.wire.batches.flat_json import FlatFields, FlatObjects
from kcontrol.wire.batches.plain_json import plain_objects
from tests.support.dice import say_seed, seed_of_run

KINDS = {
    "s": pa.string(),
    "b": pa.bool_(),
    "h": pa.int16(),
    "i": pa.int32(),
    "l": pa.int64(),
    "d": pa.float64(),
    "text": pa.string(),
    "é": pa.int32(),
}
FLAT = FlatObjects(list(KINDS), list(KINDS.values()))
VALUES = 20_000
DIGITS = "0123456789"
EXPONENTS = ("", "", "", "e0", "E1", "e-1", "e22", "e-22", "e23", "e+5", "e300", "e-400", "e1000")


def test_whatever_is_taken_arrow_and_python_read_alike() -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    values = [_damaged(_object(dice), dice) for _ in range(VALUES)]
    # A few together, because one that is not UTF-8 has effect on those around it.
    batches = [values[at : at + 5] for at in range(0, VALUES, 5)]
    found = [row for batch in batches for row in _rows(_fields(batch), batch)]
    taken = [(value, row) for value, row in zip(values, found, strict=True) if row is not None]
    assert len(taken) > VALUES // 3, "too few are taken for this to say much"
    plain = plain_objects(bytes_column(pa.array([value for value, _ in taken], pa.binary()), "value")).plain
    wrong = [value for (value, _), is_plain in zip(taken, plain, strict=True) if not is_plain]
    assert not wrong, f"taken, and not plain: {wrong[:3]}"
    text = b"\n".join(value for value, _ in taken)
    options = arrow_json.ParseOptions(
        explicit_schema=pa.schema(list(KINDS.items())), unexpected_field_behavior="ignore"
    )
    by_arrow = arrow_json.read_json(pa.BufferReader(text), parse_options=options).to_pylist()
    for (value, row), expected in zip(taken, by_arrow, strict=True):
        assert _exact(row) == _exact(expected), value
        loaded = json.loads(value)
        for name, kind in KINDS.items():
            same = loaded.get(name)
            as_read = float(same) if same is not None and kind == pa.float64() else same
            assert _exact({name: row[name]}) == _exact({name: as_read}), value


@pytest.mark.parametrize(
    "value",
    [
        b"", b"{", b"}", b"[]", b"null", b"1", b'"a"', b'{"s":"a"', b'{"s":"a"}}', b'{"s":"a"} ', b' {"s":"a"}',
        b'{"s":"a"}\n', b'{"s":"a"},', b'{"s":"a",}', b'{,"s":"a"}', b'{"s" "a"}', b'{"s":}', b'{"s":"a""b":true}',
        b'{"s":"a","s":"b"}', b'{"s":null,"s":"b"}', b"{'s':'a'}", b'{s:"a"}', b'{"s":"a\tb"}', b'{"s":"a\\"}', b'{"s":"a',
        b'{"s":"\\ud800"}', b'{"s":"\\u0041"}', b'{"s":"\\x"}', b'{"s":"\xff"}', b'{"s":"\xc3"}', b'{"s":"\xed\xa0\x80"}',
        b'{"s":"\xc0\xaf"}', b'{"\xff":1}', b'{"s":1}', b'{"s":true}', b'{"s":{}}', b'{"s":[]}', b'{"b":1}', b'{"b":"true"}',
        b'{"b":truee}', b'{"b":True}', b'{"b":nul}', b'{"h":32768}', b'{"h":-32769}', b'{"i":2147483648}', b'{"i":1.0}',
        b'{"i":1e2}', b'{"i":01}', b'{"i":-0}', b'{"i":-}', b'{"i":+1}', b'{"i":1.}', b'{"i":.5}', b'{"i":"1"}', b'{"i":true}',
        b'{"i":1 2}', b'{"l":9223372036854775808}', b'{"d":-0}', b'{"d":1e}', b'{"d":1.e1}', b'{"d":-0e1}', b'{"d":NaN}',
        b'{"d":0x1}', b'{"d":1e400}', b'{"d":9007199254740993}', b'{"d":0.1234567890123456789}', b'{"d":00.1}', b'{"d":"1"}',
        b'{"d":2.5e-0}', b'{"other":1e999}', b'{"other":{"s":1}}', b'{"other":[1]}', b'{"other":01}', b'{"other":tru}',
        b'{"\\u0073":"a"}',
        b'{"s":"' + b"x" * 10_001 + b'"}', b'{"s":"' + b"\\n" * 5_001 + b'"}',
    ],
)  # fmt: skip
def test_what_is_odd_or_wrong_is_left(value: bytes) -> None:
    found = _fields([b'{"s":"before"}', value, b'{"s":"behind"}'])
    assert found.taken.tolist() == [True, False, True]
    assert found.columns[0].to_pylist() == ["before", None, "behind"]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (b"{}", {}),
        (b"{ }", {}),
        (b'{ "s" : "a" , "b" : false }', {"s": "a", "b": False}),
        (b'{"b":true,"s":""}', {"b": True, "s": ""}),
        (b'{"s":"\\"\\\\\\/\\b\\f\\n\\r\\t","text":"longer than eight \\n bytes"}',
         {"s": '"\\/\b\f\n\r\t', "text": "longer than eight \n bytes"}),
        ('{"s":"é😀\x7f","é":7}'.encode(), {"s": "é😀\x7f", "é": 7}),
        (b'{"h":-32768,"i":2147483647,"l":-123456789012345678}',
         {"h": -32768, "i": 2147483647, "l": -123456789012345678}),
        (b'{"d":9007199254740991}', {"d": 9007199254740991.0}),
        (b'{"d":1e22}', {"d": 1e22}),
        (b'{"d":123456789.123456E-8}', {"d": 123456789.123456e-8}),
        (b'{"s":null,"h":null,"d":null,"b":null}', {}),
        (b'{"other":"x\\n","S":-1.5e3,"more":null,"s":"a","and":true}', {"s": "a"}),
    ],
)  # fmt: skip
def test_what_is_plain_is_taken(value: bytes, fields: dict[str, object]) -> None:
    [row] = _rows(_fields([value]), [value])
    assert row == {name: fields.get(name) for name in KINDS}


@pytest.mark.parametrize(
    "inside", ["", '\\"', "\\\\", "\\n", "é", "\x7f", " ", "!", "#", "[", "]", "\u2028", "😀"]
)
def test_text_ends_at_its_quote_wherever_that_lies_among_eight_bytes(inside: str) -> None:
    values = [
        f'{{"s":"{"x" * before}{inside}{"y" * behind}","text":"z"}}'.encode()
        for before in range(18)
        for behind in range(18)
    ]
    found = _rows(_fields(values), values)
    for value, row in zip(values, found, strict=True):
        loaded = json.loads(value)
        assert row is not None, value
        assert (row["s"], row["text"]) == (loaded["s"], loaded["text"])


@pytest.mark.parametrize("inside", ["\t", "\0", "\x1f", "\n"])
def test_a_control_character_is_seen_wherever_it_lies_among_eight_bytes(inside: str) -> None:
    values = [
        f'{{"s":"{"x" * before}{inside}{"y" * behind}"}}'.encode()
        for before in range(18)
        for behind in range(18)
    ]
    assert not _fields(values).taken.any()


def test_names_of_any_length_are_told_apart_by_each_of_their_bytes() -> None:
    names = ["n" * length for length in range(1, 20)]
    flat = FlatObjects(names, [pa.int32()] * len(names))
    for length in range(1, 20):
        others = ["n" * at + "m" + "n" * (length - at - 1) for at in range(length)]
        values = [f'{{"{name}":{length}}}'.encode() for name in ["n" * length, *others]]
        found = flat.fields(bytes_column(pa.array(values, pa.binary()), "value").spans)
        assert found is not None
        assert found.columns[length - 1].to_pylist() == [length, *[None] * length]
        assert all(
            column.null_count == len(values)
            for column in [*found.columns[: length - 1], *found.columns[length:]]
        )


def test_a_negative_zero_keeps_its_sign() -> None:
    found = _fields([b'{"d":-0.0}', b'{"d":-0.00e5}', b'{"d":0.0}'])
    assert [struct.pack("d", each) for each in found.columns[5].to_pylist()] == [
        struct.pack("d", each) for each in (-0.0, -0.0, 0.0)
    ]


def test_of_a_slice_with_nulls_each_row_has_its_own() -> None:
    values = pa.array([b'{"s":"a"}', None, b'{"s":"b","h":1}', b"{", b'{"h":2}'], pa.binary()).slice(1)
    found = FLAT.fields(bytes_column(values, "value").spans)
    assert found is not None
    assert found.taken.tolist() == [False, True, False, True]
    assert found.columns[0].to_pylist() == [None, "b", None, None]
    assert found.columns[2].to_pylist() == [None, 1, None, 2]


def test_a_schema_of_other_types_is_not_for_it() -> None:
    for kind in (pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.float32(), pa.date32()):
        values = bytes_column(pa.array([b"{}"]), "v").spans
        assert FlatObjects(["a", "b"], [pa.string(), kind]).fields(values) is None


def _fields(values: list[bytes]) -> FlatFields:
    found = FLAT.fields(bytes_column(pa.array(values, pa.binary()), "value").spans)
    assert found is not None
    return found


def _rows(found: FlatFields, values: list[bytes]) -> list[dict[str, Any] | None]:
    columns = [column.to_pylist() for column in found.columns]
    for column in found.columns:
        column.validate(full=True)
    rows = [dict(zip(KINDS, row, strict=True)) for row in zip(*columns, strict=True)]
    assert len(rows) == len(values)
    return [row if is_taken else None for row, is_taken in zip(rows, found.taken.tolist(), strict=True)]


def _exact(row: dict[str, Any]) -> dict[str, Any]:
    """With the bits of doubles, so that zeros have their signs."""
    return {
        name: struct.pack("d", each) if isinstance(each, float) else (type(each), each)
        for name, each in row.items()
    }


def _object(dice: random.Random) -> bytes:
    names = [name for name in (*KINDS, "other") if dice.random() < 0.7]
    dice.shuffle(names)
    space = dice.choice(("", "", "", " "))
    fields = [f'"{name}"{space}:{space}{_value(KINDS.get(name), dice)}' for name in names]
    return ("{" + f"{space},{space}".join(fields) + "}").encode()


def _value(kind: pa.DataType | None, dice: random.Random) -> str:
    roll = dice.random()
    if roll < 0.05:
        return "null"
    if kind is None or roll < 0.06:
        kind = dice.choice(list(KINDS.values()))
    if kind == pa.string():
        characters = dice.choices('abc xyz{}[],:\\"/\n\t\r\b\f\x7fé😀\u2028', k=dice.randrange(30))
        return json.dumps("".join(characters), ensure_ascii=dice.random() < 0.1)
    if kind == pa.bool_():
        return dice.choice(("true", "false"))
    sign = dice.choice(("", "-"))
    if kind == pa.float64():
        whole = str(int("".join(dice.choices(DIGITS, k=dice.randrange(1, 18)))))
        part = dice.choice(("", "." + "".join(dice.choices(DIGITS, k=dice.randrange(1, 10)))))
        return sign + whole + part + dice.choice(EXPONENTS)
    return sign + str(dice.randrange(1 << dice.randrange(1, 8 * kind.byte_width)))


def _damaged(value: bytes, dice: random.Random) -> bytes:
    if dice.random() > 0.2:
        return value
    place = dice.randrange(len(value))
    odd = dice.choice(
        (b"", b"{", b"}", b'"', b"\\", b",", b":", b"\xff", b"\xc3", b"-", b"0", b".", b"e", b"\x00", b" ")
    )
    return value[:place] + odd + value[place + dice.randrange(2) :]
