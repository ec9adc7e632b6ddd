"""Pushes of the bench: each is a request of its own, only rows that were answered for count, and another answer ends it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from bench.push.client import FORMATS, Pushing, body_of, push
from kcontrol.requests.push.bodies import rows_of
from kcontrol.requests.push.limits import BodyLimits, Rules
from kcontrol.requests.push.schema import row_kind

ENOUGH = 20


async def pushed(status: str, ids: Counter[str], bodies: set[bytes], format_name: str = "ndjson") -> Pushing:
    """By two clients, whose time is over when the server has seen enough."""
    enough = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
            bodies.add(await reader.readexactly(int(fields["Content-Length"])))
            ids[fields["Idempotency-Key"]] += 1
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
            if len(ids) >= ENOUGH:
                enough.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await push(f"http://127.0.0.1:{port}", "/rows", format_name, 3, 2, enough.is_set)


def test_what_was_answered_for_counts() -> None:
    ids, bodies = Counter[str](), set[bytes]()
    found = asyncio.run(pushed("200 OK", ids, bodies))
    assert found.requests == ids.total() >= ENOUGH
    assert set(ids.values()) == {1}
    assert bodies == {body_of(3)}
    assert body_of(3).count(b"\n") == 3
    assert found.rows_per_s > 0
    assert found.median_ms <= found.p99_ms


@pytest.mark.parametrize("format_name", FORMATS)
def test_bodies_of_each_format_have_the_same_rows(format_name: str) -> None:
    bodies = set[bytes]()
    found = asyncio.run(pushed("200 OK", Counter[str](), bodies, format_name))
    [body] = bodies
    assert (found.format, found.body_bytes) == (format_name, len(body))
    rules = Rules(
        "bench", row_kind("id STRING, amount INT, note STRING"), raw=False, key="", limits=BodyLimits()
    )
    rows = [json.loads(row.value) for row in rows_of(body, FORMATS[format_name], rules)]
    assert rows == [{"id": f"{row:012}", "amount": row, "note": "x" * 40} for row in range(3)]


def test_another_answer_is_told() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(pushed("429 Too Many Requests", Counter(), set()))
    assert "answered with HTTP/1.1 429" in str(raised.value.exceptions[0])
