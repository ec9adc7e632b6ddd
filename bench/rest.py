"""What reads of the REST interface cost a pipeline: times of 1,000-record steps with 200
requests/s and without, in turns.

One pipeline and one server run all the time; between blocks of steps the requests begin and end, so that both
sides are measured in the same processes. The steps next to such a change are counted to neither.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from bench import topics
from bench.blocks import SETTLE_STEPS, SIDES, WITH, WITHOUT, await_steps, block_ms
from bench.figures import Spread
from bench.load import Answered
from bench.plan import Places, alternating
from bench.running import COMMAND_TIMEOUT_S, Running, address_said, running
from examples.processes import KcontrolProcess

RATE = 200
STEP_RECORDS = 1_000
WORKLOAD = "passthrough"
WARM_UP_STEPS = 60
STEPS = 80
"""Of each block."""
QUICK_STEPS = 15
REPEATS = 6
QUICK_REPEATS = 1


@dataclass(frozen=True)
class RestEffect:
    """Medians of blocks of steps, in milliseconds from step to step. ratio: with
    requests, to without: 1 is no effect."""

    per_second: float
    without: Spread
    with_requests: Spread
    ratio: float
    requests: tuple[Answered, ...]
    """Of each block."""


def measure_rest(bootstrap_servers: str, partitions: int, cores: int, *, quick: bool) -> RestEffect:
    """Raises RuntimeError when steps stand still, or requests are not answered."""
    steps, repeats = (QUICK_STEPS, QUICK_REPEATS) if quick else (STEPS, REPEATS)
    source = f"rest-{uuid.uuid4().hex[:8]}"
    blocks = list(alternating(SIDES, repeats))
    all_steps = WARM_UP_STEPS + len(blocks) * (steps + 2 * SETTLE_STEPS)
    topics.create_topics(bootstrap_servers, source, partitions=partitions)
    topics.fill(bootstrap_servers, source, (all_steps + steps) * STEP_RECORDS, partitions)
    places = Places(bootstrap_servers, source, partitions, cores)
    sink = f"bench-rest-{uuid.uuid4().hex[:8]}"
    topics.create_topics(bootstrap_servers, sink, partitions=partitions)
    try:
        with running(places, sink, WORKLOAD, STEP_RECORDS) as pipeline:
            await_steps(pipeline, WARM_UP_STEPS)
            with served(bootstrap_servers) as server:
                return _in_blocks(pipeline, blocks, steps, server.url, places.source)
    finally:
        topics.delete_topics(bootstrap_servers, sink)


def _in_blocks(pipeline: Running, blocks: list[str], steps: int, url: str, source: str) -> RestEffect:
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    requests: list[Answered] = []
    for side in blocks:
        if side == WITH:
            with _asked(url, pipeline.name, source, requests):
                times[side].append(block_ms(pipeline, steps))
        else:
            times[side].append(block_ms(pipeline, steps))
    without, loaded = Spread.of(times[WITHOUT]), Spread.of(times[WITH])
    return RestEffect(RATE, without, loaded, loaded.median / without.median, tuple(requests))


@dataclass(frozen=True)
class Served:
    """A server that is ready to answer, and its address."""

    process: KcontrolProcess
    url: str


@contextmanager
def served(bootstrap_servers: str, options: Sequence[str] = ()) -> Iterator[Served]:
    """One with these options of `kcontrol serve`, until it is left. Raises RuntimeError when it does not become ready."""
    with tempfile.TemporaryDirectory(prefix="bench-rest-") as scratch:
        arguments = ["serve", "--port", "0", "--json", "--bootstrap-servers", bootstrap_servers, *options]
        process = KcontrolProcess("serve", arguments, Path(scratch))
        process.start()
        try:
            url = address_said(process, "serve", COMMAND_TIMEOUT_S)
            _await_ready(url, process)
            yield Served(process, url)
        finally:
            process.stop()


def _await_ready(url: str, process: KcontrolProcess) -> None:
    deadline = time.monotonic() + COMMAND_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            with urlopen(f"{url}/health/ready", timeout=COMMAND_TIMEOUT_S):
                return
        except HTTPError:
            time.sleep(0.05)
    raise RuntimeError(f"the server did not become ready\n{process.log_tail()}")


@contextmanager
def _asked(url: str, pipeline: str, topic: str, requests: list[Answered]) -> Iterator[None]:
    """While requests are made by a process of its own; adds what became of them. Raises RuntimeError when it
    failed."""
    command = [sys.executable, "-m", "bench.load", url, pipeline, topic, str(RATE)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield
        finally:
            said, _ = process.communicate(timeout=COMMAND_TIMEOUT_S)
    if process.returncode != 0:
        raise RuntimeError(f"the requests ended with exit code {process.returncode}")
    found = Answered(**json.loads(said))
    if found.answered < found.asked:
        raise RuntimeError(
            f"{found.asked - found.answered} of {found.asked} requests were not answered with 200"
        )
    requests.append(found)
