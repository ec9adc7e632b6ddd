"""Clients that push one body after the other, each under an id of its own: on bare sockets, as those of `bench/load.py`."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from statistics import median, quantiles
from urllib.parse import urlsplit

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from bench.load import answer_of
from kcontrol.requests.push.bodies import AVRO, NDJSON, PARQUET

ANSWER_S = 60.0
FORMATS = {"ndjson": NDJSON, "avro": AVRO, "parquet": PARQUET}
_AVRO_FIELDS = {"id": "string", "amount": "int", "note": "string"}


@dataclass(frozen=True)
class Pushing:
    """What some clients got answered with 200 in the time. ms: of a request, from its first byte to the end of the answer."""

    format: str
    body_rows: int
    body_bytes: int
    connections: int
    requests: int
    rows_per_s: float
    median_ms: float
    p99_ms: float


def body_of(rows: int, format_name: str = "ndjson") -> bytes:
    """About 80 bytes a row as NDJSON; Avro is not compressed, Parquet as it is by default."""
    made = [{"id": f"{row:012}", "amount": row, "note": "x" * 40} for row in range(rows)]
    file = BytesIO()
    if format_name == "avro":
        fields = [{"name": name, "type": kind} for name, kind in _AVRO_FIELDS.items()]
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, made)
    elif format_name == "parquet":
        pq.write_table(pa.Table.from_pylist(made), file)
    else:
        file.writelines(json.dumps(row).encode() + b"\n" for row in made)
    return file.getvalue()


async def push(
    url: str,
    path: str,
    format_name: str,
    body_rows: int,
    connections: int,
    is_over: Callable[[], bool],
) -> Pushing:
    """As many requests as are begun before it is over. Raises a group of RuntimeError when one has
    another answer than 200."""
    body, took_s = body_of(body_rows, format_name), list[float]()
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_push(url, path, FORMATS[format_name], body, is_over, took_s))
    whole_s = time.monotonic() - began
    cut_s = quantiles(took_s, n=100, method="inclusive")[98] if len(took_s) > 1 else took_s[0]
    return Pushing(
        format_name,
        body_rows,
        len(body),
        connections,
        len(took_s),
        len(took_s) * body_rows / whole_s,
        1e3 * median(took_s),
        1e3 * cut_s,
    )


async def _push(
    url: str, path: str, media_type: str, body: bytes, is_over: Callable[[], bool], took_s: list[float]
) -> None:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        while not is_over():
            at = time.monotonic()
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: {media_type}\r\n"
                f"Idempotency-Key: {uuid.uuid4()}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            async with asyncio.timeout(ANSWER_S):
                await writer.drain()
                await _accepted(reader)
            took_s.append(time.monotonic() - at)
    finally:
        writer.close()


async def _accepted(reader: asyncio.StreamReader) -> None:
    status, body = await answer_of(reader)
    if status != 200:
        raise RuntimeError(f"a push was answered with HTTP/1.1 {status}: {body.decode(errors='replace')}")
