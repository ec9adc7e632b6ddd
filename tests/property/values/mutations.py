"""Avro values as a producer may send them: made by fastavro, then damaged as a hostile producer would damage
them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
from fastavro.utils import generate_one


def _record(*types: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(types)],
    }


def _logical(base: Any, logical: str, **more: Any) -> dict[str, Any]:
    return {**(base if isinstance(base, dict) else {"type": base}), "logicalType": logical, **more}


_INNER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"]}],
}
_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
SCHEMAS = (
    _record("int", "long", "boolean"),
    _record("string", "bytes", "float", "double"),
    _record(["null", "long"], ["string", "null"], _ENUM),
    _record({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "string"]}),
    _record({"type": "array", "items": "null"}, {"type": "map", "values": "null"}, "null"),
    _record(_INNER, {"type": "array", "items": "I"}, {"type": "map", "values": "I"}),
    _record(
        {"type": "map", "values": {"type": "array", "items": "long"}},
        {"type": "fixed", "name": "F", "size": 3},
    ),
    _record(
        _logical("bytes", "decimal", precision=5, scale=2),
        _logical("bytes", "decimal", precision=38, scale=38),
    ),
    _record(
        _logical({"type": "fixed", "name": "D", "size": 9}, "decimal", precision=18), _logical("int", "date")
    ),
    _record(
        _logical("long", "timestamp-millis"), _logical("long", "timestamp-micros"), _logical("string", "uuid")
    ),
)
_EXTREMES = (
    b"\x80" * 9 + b"\x01",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x7f",
    b"\x80" * 11,
    b"\xff" * 11 + b"\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\xad\xe2\x04",
    b"\x01",
    b"\x03",
    b"\x80\x00",
)
"""Numbers at and beyond the ends of int and long, overlong ones, minus one and two, and a ten-million."""


def valid(schema: dict[str, Any], chance: random.Random) -> bytes:
    """A datum as fastavro writes it."""
    random.seed(chance.getrandbits(32))  # fastavro's generator has no seed of its own
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), generate_one(schema))
    return out.getvalue()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The value after one to four changes: bytes changed, cut out, repeated, put in; numbers made extreme."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(out))
        match chance.randrange(6):
            case 0 if at < len(out):
                out[at] = chance.randrange(256)
            case 1 if at < len(out):
                out[at] ^= 1 << chance.randrange(8)
            case 2:
                del out[at : at + chance.randint(1, 4)]
            case 3:
                out[at:at] = out[at : at + chance.randint(1, 8)]
            case 4:
                out[at:at] = chance.randbytes(chance.randint(1, 4))
            case _:
                out[at : at + 1] = chance.choice(_EXTREMES)
    return bytes(out)


def mutations(schema: dict[str, Any], count: int, seed: int) -> Iterator[bytes]:
    """So many damaged values of a schema, the same for the same seed."""
    chance = random.Random(seed)
    seeds = [valid(schema, chance) for _ in range(64)]
    for _ in range(count):
        yield mutated(chance.choice(seeds), chance)
