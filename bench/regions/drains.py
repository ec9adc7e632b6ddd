"""What a drain every second costs the throughput of a pipeline: windows of steps with drains and with none, in turns.

A pipeline with Spark works through a backlog. What it writes is read by one without Spark (`bench/quick_node.py`), which
always keeps up and takes next to nothing, so that the first is held as in any region: until its reader knows where to
stop. The same processes make all windows, the region's controller among them; only the region is defined anew.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Spread
from bench.kcontrol_side import measured_steps
from bench.nodes import with_steps_of
from bench.plan import Draining, Measurement, Places
from bench.regions.chain import BenchRegion, region_controller, relay
from bench.running import Running, check_written, running
from bench.topics import create_topics, make_source
from examples.processes import KcontrolProcess, alive
from examples.step_feed import Boundary
from kcontrol import StepPolicy
from kcontrol.core.regions.model import Trigger
from kcontrol.settings.cluster import ClusterSettings

PARTITIONS = CORES = 2
SETTLE_STEPS = 3
"""After a change of the definition or the region, in no window."""


@dataclass(frozen=True)
class Window:
    """Steps (after, last] were made with or without drains."""

    drained: bool
    after: int
    last: int


@dataclass(frozen=True)
class DrainCost:
    """Of one size of steps: records/s by window without and with drains. lost: the share of all records of the time
    without that is missing with drains; below 0 there were more. per_s: drains in a second of the windows that have them."""

    workload: str
    step_records: int
    without: Spread
    with_: Spread
    lost: float
    drains: int
    per_s: float


def measure_drains(bootstrap_servers: str, plan: Draining, say: Callable[[str], None]) -> list[DrainCost]:
    """Each size. Raises RuntimeError when a pipeline stands still or loses records."""
    name = f"bench-drained-{uuid.uuid4().hex[:8]}"
    reader, source, read = f"{name}-reader", f"{name}-source", f"{name}-read"
    make_source(bootstrap_servers, source, plan.records, PARTITIONS, say)
    create_topics(bootstrap_servers, name, read, partitions=PARTITIONS)
    settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
    first = plan.sizes[0]
    relay(settings, reader, name, read, StepPolicy(min_records=first.step_records, max_delay="200 ms"))
    windows: dict[int, list[Window]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-drained-") as scratch:
        home = Path(scratch)
        node = KcontrolProcess("reader", [bootstrap_servers, reader], home, module="bench.quick_node")
        controller = region_controller(bootstrap_servers, home, f"{name}-region")
        places = Places(bootstrap_servers, source, PARTITIONS, CORES)
        with alive(node, controller), running(places, name, first.workload, first.step_records) as pipeline:
            region = BenchRegion(settings, f"{name}-region", (name, reader), (node, controller))
            _await(pipeline, first.warm_up_steps)
            region.until_step(reader, 1)
            for size in plan.sizes:
                windows[size.step_records] = _windows(pipeline, region, plan, size, say)
            cuts = [each.made_ms for each in region.view().cuts.values()]
            pipeline.stop()
            made = pipeline.feed.steps
    return [drain_cost(size, made, windows[size.step_records], cuts) for size in plan.sizes]


def _windows(
    pipeline: Running, region: BenchRegion, plan: Draining, size: Measurement, say: Callable[[str], None]
) -> list[Window]:
    if size is not plan.sizes[0]:
        pipeline.redefine(lambda spec: with_steps_of(spec, size.step_records))
        _await(pipeline, pipeline.feed.committed + size.warm_up_steps)
    found = []
    for number in range(plan.windows):
        # None, some, some, none: a machine that drifts is not held against one side.
        drained = number % 4 in (1, 2)
        region.define(Trigger.PERIODIC if drained else Trigger.OPERATOR_DRIVEN, plan.period_ms)
        after = pipeline.feed.committed + SETTLE_STEPS
        _await(pipeline, after + size.steps)
        found.append(Window(drained, after, after + size.steps))
        say(
            f"steps of {size.step_records:,}: window {number + 1} of {plan.windows}, {'with' if drained else 'no'} drains"
        )
    return found


def _await(pipeline: Running, step: int) -> None:
    pipeline.await_steps(lambda steps: len(steps) >= step, str(step))


def drain_cost(
    size: Measurement, steps: Sequence[Boundary], windows: Sequence[Window], cuts_ms: Sequence[float]
) -> DrainCost:
    """What the windows of one size tell. steps: all of the log, from step 1 on. cuts_ms: when each cut was made.
    Throughput is of whole windows, so that the step for which a drain was waited counts in full."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    records, lasted_ms = {True: 0.0, False: 0.0}, {True: 0.0, False: 0.0}
    drains = 0
    for window in windows:
        within = steps[window.after - 1 : window.last]
        begins, ends = within[0]["committed_ms"], within[-1]["committed_ms"]
        for step in within[1:]:
            check_written(size.workload, step, size.step_records)
        read = sum(each.records for each in measured_steps(within))
        rates[window.drained].append(1_000 * read / (ends - begins))
        records[window.drained] += read
        lasted_ms[window.drained] += ends - begins
        drains += sum(begins < each <= ends for each in cuts_ms) if window.drained else 0
    without, with_ = (records[each] / lasted_ms[each] for each in (False, True))
    return DrainCost(
        size.workload,
        size.step_records,
        Spread.of(rates[False]),
        Spread.of(rates[True]),
        1 - with_ / without,
        drains,
        1_000 * drains / lasted_ms[True],
    )
