"""Reads of the REST interface at a steady rate: `python -m bench.load URL PIPELINE TOPIC
RATE`, until its input is closed.

The rate does not wait for answers: a request has been late since it was due, not since somebody had time to
send it. A client of its own on bare sockets, because what an HTTP library costs at such a rate would be taken
for the server's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import cycle
from statistics import quantiles
from urllib.parse import urlsplit

from kcontrol.apps.supervisor.priority import give_way

CONNECTIONS = 16
NICENESS = 10
SOURCE = "records"
"""Name of the input of the bench's pipeline."""


@dataclass(frozen=True)
class Answered:
    """asked: requests that were due. answered: those with status 200. ms: from when they
    were due to the end of the answer."""

    asked: int
    answered: int
    median_ms: float
    p99_ms: float


def mix(pipeline: str, topic: str, source: str = SOURCE) -> Iterator[str]:
    """What people, consoles, producers and Prometheus ask, in turn, of a pipeline whose first offsets are
    committed."""
    base = f"/v1/pipelines/{pipeline}"
    often = [
        base,
        f"{base}/steps?limit=20",
        f"{base}/completion?topic={topic}&partition=0&offset=7",
        f"{base}/inputs",
    ]
    seldom = [
        "/v1/pipelines",
        f"{base}/nodes",
        f"{base}/errors",
        f"{base}/checkpoints",
        f"{base}/spec",
        f"{base}/stats",
        f"{base}/steps/2",
        f"{base}/steps/by-input?input={source}&partition=0&offset=7",
        "/health/ready",
        "/metrics",
    ]
    for one in cycle(seldom):
        yield from (*often, one)


async def load(url: str, paths: Iterator[str], per_second: float, stop: asyncio.Event) -> Answered:
    """Ask until `stop` is set."""
    due: asyncio.Queue[tuple[float, str]] = asyncio.Queue()
    took: list[float] = []
    asked = 0
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(_work(url, due, took)) for _ in range(CONNECTIONS)]
        began = time.monotonic()
        while not stop.is_set():
            at = began + asked / per_second
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            due.put_nowait((at, next(paths)))
            asked += 1
        await due.join()
        for worker in workers:
            worker.cancel()
    cuts = quantiles(took, n=100, method="inclusive") if len(took) > 1 else [*took, 0.0] * 99
    return Answered(asked, len(took), 1_000 * cuts[49], 1_000 * cuts[98])


async def _work(url: str, due: asyncio.Queue[tuple[float, str]], took: list[float]) -> None:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        while True:
            at, path = await due.get()
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
            status, _ = await answer_of(reader)
            if status == 200:
                took.append(time.monotonic() - at)
            due.task_done()
    finally:
        writer.close()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of one answer, which is read whole."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    body = await reader.readexactly(int(lines["content-length"]))
    return int(head.split(" ", 2)[1]), body


async def _until_closed(url: str, pipeline: str, topic: str, per_second: float) -> Answered:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def closed() -> None:
        loop.remove_reader(sys.stdin)
        stop.set()

    loop.add_reader(sys.stdin, closed)
    return await load(url, mix(pipeline, topic), per_second, stop)


if __name__ == "__main__":
    # It stands for clients on other machines: it must not take the processor from what is measured.
    give_way(NICENESS)
    found = asyncio.run(_until_closed(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
    print(json.dumps(asdict(found)))
