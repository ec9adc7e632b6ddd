"""`python -m bench.push`: rows/s that are pushed over HTTP into a pipeline that runs, by how many rows a body has and how
many clients push at once; `--format` says as what they are pushed.

An answer comes when the rows are committed in Kafka. Broker, server, coordinator, node and clients share the machine. In the
end the steps must have read every row that was answered for, and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from rich.console import Console
from rich.table import Table

from bench.plan import Places
from bench.push.client import FORMATS, Pushing, push
from bench.rest import served
from bench.running import COMMAND_TIMEOUT_S, Running, records_read, with_coordinator
from bench.topics import create_topics
from examples import processes
from kcontrol.adapters.kafka.embedded import EmbeddedBroker

PIPELINE_FILE = Path(__file__).with_name("pipeline.py")
CORES = PARTITIONS = 2
BODY_ROWS = (1, 100, 10_000)
CONNECTIONS = (1, 8)
MOST_BYTES = 8 << 20
"""Of a body; the largest here has a megabyte."""
START_S = 180.0
"""In which node and server know the pipeline."""


def main() -> int:
    """Exit code 0 when everything was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.push", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=10, help="of each figure, after a fifth of it to warm up"
    )
    parser.add_argument(
        "--format",
        nargs="+",
        choices=FORMATS,
        default=["ndjson"],
        help="what bodies are, one after the other",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    console = Console(stderr=True)
    with EmbeddedBroker(None) as broker, tempfile.TemporaryDirectory(prefix="bench-push-") as scratch:
        found = _measure(broker.bootstrap_servers, Path(scratch), options.format, options.seconds, console)
    if options.json:
        print(json.dumps([asdict(each) for each in found]))
    else:
        _show(Console(), found)
    return 0


def _measure(
    servers: str, home: Path, formats: Sequence[str], seconds: float, console: Console
) -> list[Pushing]:
    name = f"bench-push-{uuid.uuid4().hex[:8]}"
    places = Places(servers, f"{name}-source", PARTITIONS, CORES)
    create_topics(servers, places.source, name, partitions=PARTITIONS)
    environment = {"BENCH_PIPELINE": name, "BENCH_SOURCE": places.source, "BENCH_CORES": str(CORES)}
    node = processes.node(PIPELINE_FILE, servers, home, 0, f"local[{CORES}]", environment)
    limits = ("--max-push-bytes", str(MOST_BYTES), "--max-queued-rows", "100000000")
    with with_coordinator(places, home, name, [node]) as pipeline, served(servers, limits) as server:
        path, pushed, found = f"/v1/pipelines/{name}/ingress/rows", 0, list[Pushing]()
        _await_known(f"{server.url}/v1/pipelines/{name}/inputs")
        for format_name, connections, rows in product(formats, CONNECTIONS, BODY_ROWS):
            where = (server.url, path, format_name, rows, connections)
            warmed = asyncio.run(push(*where, _after(seconds / 5)))
            one = asyncio.run(push(*where, _after(seconds)))
            pushed += (warmed.requests + one.requests) * rows
            found.append(one)
            console.print(
                f"{format_name}, {connections} clients, {rows:,} rows: {one.rows_per_s:,.0f} rows/s"
            )
        _check(pipeline, pushed)
        pipeline.stop()
    return found


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _await_known(url: str) -> None:
    """Raises RuntimeError if the server does not know the pipeline in time: its node submits the definition."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=COMMAND_TIMEOUT_S):
                return
        except HTTPError:
            time.sleep(0.1)
    raise RuntimeError(f"{url} has not answered with 200 within {START_S:.0f} s")


def _check(pipeline: Running, pushed: int) -> None:
    """Raises RuntimeError when steps have not read as many rows as were pushed."""
    steps = pipeline.await_steps(lambda steps: sum(map(records_read, steps)) >= pushed, f"{pushed:,} rows")
    if (read := sum(map(records_read, steps))) != pushed:
        raise RuntimeError(f"{pushed:,} rows were pushed, and the steps have read {read:,}")


def _show(console: Console, found: list[Pushing]) -> None:
    columns = (
        "format",
        "clients",
        "rows of a body",
        "bytes of a body",
        "requests",
        "rows/s",
        "ms of a request",
        "99 %",
    )
    table = Table(*columns, title="rows that are pushed over HTTP")
    for each in found:
        times = (f"{ms:,.1f}" for ms in (each.median_ms, each.p99_ms))
        counts = (each.connections, each.body_rows, each.body_bytes, each.requests, round(each.rows_per_s))
        table.add_row(each.format, *(f"{count:,}" for count in counts), *times)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
