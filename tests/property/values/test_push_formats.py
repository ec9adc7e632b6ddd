"""The same rows as NDJSON, Avro and Parquet are the same bytes in the log."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kcontrol.requests.push.bodies import AVRO, NDJSON, PARQUET, rows_of
from kcontrol.requests.push.limits import BodyLimits, Rules
from kcontrol.requests.push.schema import row_kind
from tests.support.packed_rows import avro, parquet

Shape = Any
"""The name of a leaf; ("array" or "map", Shape); ("struct", by name a Shape)."""


@dataclass(frozen=True)
class Leaf:
    """A type of values without others in it. text: a value of it in JSON."""

    ddl: str
    avro: Any
    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    text: Callable[[Any], str]


def _whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _number(value: float) -> str:
    special = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
    return special.get(repr(value)) or json.dumps(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _of_avro(name: str, base: str = "long", **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


MICROS, DECIMAL = pa.timestamp("us"), _of_avro("decimal", "bytes", precision=9, scale=3)
DECIMALS = st.integers(-(10**9) + 1, 10**9 - 1).map(lambda value: Decimal(value).scaleb(-3))
MOMENTS = st.datetimes(timezones=st.just(UTC))
LEAVES = {
    "string": Leaf("STRING", "string", pa.string(), st.text(max_size=5), _text),
    "tiny": Leaf("TINYINT", "int", pa.int8(), _whole(8), str),
    "int": Leaf("INT", "int", pa.int32(), _whole(32), str),
    "long": Leaf("BIGINT", "long", pa.int64(), _whole(64), str),
    "float": Leaf("FLOAT", "float", pa.float32(), st.floats(width=32), _number),
    "double": Leaf("DOUBLE", "double", pa.float64(), st.floats(), _number),
    "boolean": Leaf("BOOLEAN", "boolean", pa.bool_(), st.booleans(), json.dumps),
    "binary": Leaf(
        "BINARY", "bytes", pa.binary(), st.binary(max_size=5), lambda value: f'"{b64encode(value).decode()}"'
    ),
    "decimal": Leaf("DECIMAL(9,3)", DECIMAL, pa.decimal128(9, 3), DECIMALS, lambda value: format(value, "f")),
    "date": Leaf("DATE", _of_avro("date", "int"), pa.date32(), st.dates(), lambda value: f'"{value}"'),
    "moment": Leaf(
        "TIMESTAMP", _of_avro("timestamp-micros"), pa.timestamp("us", "UTC"), MOMENTS,
        lambda value: f'"{value.isoformat().replace("+00:00", "Z")}"',
    ),
    "local": Leaf(
        "TIMESTAMP", _of_avro("local-timestamp-micros"), MICROS, st.datetimes(), lambda value: f'"{value.isoformat()}"'
    ),
}  # fmt: skip

_NAMES = st.sampled_from(("a", "b", "c_1", "Long_name"))
SHAPES = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: (
        st.tuples(st.sampled_from(("array", "map")), inner)
        | st.tuples(st.just("struct"), st.dictionaries(_NAMES, inner, min_size=1, max_size=3))
    ),
    max_leaves=5,
)


def ddl_of(shape: Shape) -> str:
    if isinstance(shape, str):
        return LEAVES[shape].ddl
    name, inner = shape
    if name == "struct":
        return f"STRUCT<{', '.join(f'{field}: {ddl_of(each)}' for field, each in inner.items())}>"
    return f"ARRAY<{ddl_of(inner)}>" if name == "array" else f"MAP<STRING, {ddl_of(inner)}>"


def avro_of(shape: Shape, numbers: Any) -> list[Any]:
    """It or null. numbers: for names."""
    if isinstance(shape, str):
        return ["null", LEAVES[shape].avro]
    name, inner = shape
    if name == "struct":
        fields = [{"name": field, "type": avro_of(each, numbers)} for field, each in inner.items()]
        return ["null", {"type": "record", "name": f"r{next(numbers)}", "fields": fields}]
    return ["null", {"type": name, "items" if name == "array" else "values": avro_of(inner, numbers)}]


def arrow_of(shape: Shape) -> pa.DataType:
    if isinstance(shape, str):
        return LEAVES[shape].arrow
    name, inner = shape
    if name == "struct":
        return pa.struct({field: arrow_of(each) for field, each in inner.items()})
    return pa.list_(arrow_of(inner)) if name == "array" else pa.map_(pa.string(), arrow_of(inner))


Three = tuple[str, Any, Any]
"""A value as JSON, for fastavro, and for Arrow."""


def values_of(shape: Shape) -> st.SearchStrategy[Three]:
    if isinstance(shape, str):
        leaf = LEAVES[shape]
        some = leaf.values.map(lambda value: (leaf.text(value), value, value))
    elif shape[0] == "struct":
        some = rows_like(shape[1])
    elif shape[0] == "array":
        some = st.lists(values_of(shape[1]), max_size=3).map(_array)
    else:
        some = st.dictionaries(st.text(max_size=3), values_of(shape[1]), max_size=3).map(_map)
    return st.just(("null", None, None)) | some


def _array(values: list[Three]) -> Three:
    return (
        f"[{','.join(text for text, _, _ in values)}]",
        [each for _, each, _ in values],
        [each for *_, each in values],
    )


def _map(values: dict[str, Three]) -> Three:
    text = ",".join(f"{_text(key)}:{value}" for key, (value, _, _) in values.items())
    pairs = [(key, value) for key, (_, _, value) in values.items()]
    return f"{{{text}}}", {key: value for key, (_, value, _) in values.items()}, pairs


def rows_like(shapes: dict[str, Shape]) -> st.SearchStrategy[Three]:
    def struct(found: dict[str, Three]) -> Three:
        # They come in an order of their own.
        values = {name: found[name] for name in shapes}
        text, of_avro, _ = _map(values)
        return text, of_avro, {key: value for key, (_, _, value) in values.items()}

    return st.fixed_dictionaries({name: values_of(shape) for name, shape in shapes.items()}).map(struct)


@given(st.data())
def test_the_same_rows_are_the_same_in_the_log(data: st.DataObject) -> None:
    shapes = data.draw(st.dictionaries(_NAMES, SHAPES, min_size=1, max_size=4))
    rows = data.draw(st.lists(rows_like(shapes), min_size=1, max_size=6))
    codec = data.draw(st.sampled_from(("null", "deflate", "snappy")))
    options = {"use_dictionary": data.draw(st.booleans()), "row_group_size": data.draw(st.integers(1, 6))}
    schema = ", ".join(f"{name} {ddl_of(shape)}" for name, shape in shapes.items())
    rules = Rules("input 'i'", row_kind(schema), raw=False, key="", limits=BodyLimits())
    numbers = count()
    bodies = {
        NDJSON: "\n".join(text for text, _, _ in rows).encode(),
        AVRO: avro(
            {name: avro_of(shape, numbers) for name, shape in shapes.items()},
            [row for _, row, _ in rows],
            codec,
        ),
        PARQUET: parquet(
            {
                name: pa.array([row[name] for *_, row in rows], arrow_of(shape))
                for name, shape in shapes.items()
            },
            **options,
        ),
    }
    ndjson, of_avro, of_parquet = (rows_of(body, kind, rules) for kind, body in bodies.items())
    assert of_avro == ndjson
    assert of_parquet == ndjson
