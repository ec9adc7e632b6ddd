"""Bodies of Avro and Parquet: right ones, as their libraries write them, and by hand those that no library writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

SYNC = bytes(range(16))


def avro(fields: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], codec: str = "null") -> bytes:
    """fields: the type of each, as Avro has it."""
    file = BytesIO()
    fastavro.writer(file, record(fields), rows, codec=codec, sync_marker=SYNC)
    return file.getvalue()


def record(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a row."""
    return {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": of} for name, of in fields.items()],
    }


def varint(value: int) -> bytes:
    """As Avro writes a long."""
    rest, found = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def container(schema: Any, *blocks: tuple[int, bytes], codec: str | None = None, sync: bytes = SYNC) -> bytes:
    """An Avro file of these blocks, each of so many rows and these bytes. sync: behind each."""
    facts = {"avro.schema": json.dumps(schema).encode()} | (
        {} if codec is None else {"avro.codec": codec.encode()}
    )
    pairs = b"".join(
        varint(len(name)) + name.encode() + varint(len(value)) + value for name, value in facts.items()
    )
    head = b"Obj\x01" + varint(len(facts)) + pairs + varint(0) + SYNC
    return head + b"".join(varint(count) + varint(len(data)) + data + sync for count, data in blocks)


def repeated(text: str, times: int) -> pa.Array:
    """So many of a text, which is there once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([text]))


def parquet(columns: Mapping[str, Any], **options: Any) -> bytes:
    """columns: arrays, by name."""
    file = BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()
