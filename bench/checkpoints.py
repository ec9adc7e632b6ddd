"""What checkpoints cost the steps that go on meanwhile: steps with one every few seconds
against steps with none, in turns.

One process makes all steps of an aggregate whose state is there from the first one. Only the interval of its
checkpoints changes, from window to window, by submitting the definition anew; so both sides have the same
process, state and disk.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.figures import Spread, Tail
from bench.kcontrol_side import measured_steps
from bench.nodes import with_steps_of
from bench.plan import Measurement, Places, Saving
from bench.running import Running, check_written, running
from bench.topics import create_topics, fill
from examples.step_feed import Boundary
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.model import Checkpoint, PipelineSpec
from kcontrol.settings.cluster import ClusterSettings

SOURCE = "many-keys"
PARTITIONS = CORES = 2
NEVER_MS = 3_600_000
"""The interval of a window without checkpoints: longer than the bench."""
SPARE_STEPS = 10
SETTLE_STEPS = 3
"""Steps after a change of the definition that are in no window, because they may have been begun before
it."""


@dataclass(frozen=True)
class Window:
    """Steps (after, last] were made with or without checkpoints."""

    saving: bool
    after: int
    last: int


@dataclass(frozen=True)
class SavingCost:
    """One step size, in ms from commit to commit without and with checkpoints, and how many
    times as long it takes with them.

    size_bytes: of all files of a checkpoint. took_ms: from the command to the nodes to the record in the log.
    """

    step_records: int
    without: Tail
    with_: Tail
    times_as_long: float
    p99_times_as_long: float
    checkpoints: int
    size_bytes: Spread
    took_ms: Spread


def measure_checkpoints(
    bootstrap_servers: str, saving: Saving, say: Callable[[str], None]
) -> list[SavingCost]:
    """Large steps first, because they fill the state. Raises RuntimeError when the pipeline
    stands still or loses records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    name = f"bench-checkpoints-{uuid.uuid4().hex[:8]}"
    sizes = (saving.large, saving.small)
    create_topics(bootstrap_servers, SOURCE, name, partitions=PARTITIONS)
    records = sum(_records(saving, size) for size in sizes)
    say(f"filling the source with {records:,} records")
    fill(bootstrap_servers, SOURCE, records, PARTITIONS, keys=saving.keys)
    windows: dict[int, list[Window]] = {}
    with running(
        places, name, saving.large.workload, saving.large.step_records, checkpoint_every=f"{NEVER_MS} ms"
    ) as pipeline:
        for size in sizes:
            windows[size.step_records] = _windows(pipeline, saving, size, say)
        pipeline.stop()
        steps = pipeline.feed.steps
        checkpoints = asyncio.run(_checkpoints(bootstrap_servers, name))
    return [saving_cost(size, steps, windows[size.step_records], checkpoints) for size in sizes]


def _records(saving: Saving, size: Measurement) -> int:
    """What its steps read, with some for those in no window."""
    steps = size.warm_up_steps + saving.windows * (size.steps + 2 * SETTLE_STEPS)
    return size.step_records * (steps + SPARE_STEPS)


def _windows(
    pipeline: Running, saving: Saving, size: Measurement, say: Callable[[str], None]
) -> list[Window]:
    _await(pipeline, 1)
    _redefine(pipeline, size, NEVER_MS)
    _await(pipeline, pipeline.feed.committed + size.warm_up_steps)
    found = []
    for number in range(saving.windows):
        # None, some, some, none: a machine that drifts is not held against one side.
        saves = number % 4 in (1, 2)
        _redefine(pipeline, size, saving.every_ms if saves else NEVER_MS)
        after = pipeline.feed.committed + SETTLE_STEPS
        _await(pipeline, after + size.steps)
        found.append(Window(saves, after, after + size.steps))
        say(
            f"steps of {size.step_records:,}: window {number + 1} of {saving.windows}, "
            f"{'with' if saves else 'no'} checkpoints"
        )
    return found


def _redefine(pipeline: Running, size: Measurement, every_ms: int) -> None:
    def change(spec: PipelineSpec) -> PipelineSpec:
        return replace(
            with_steps_of(spec, size.step_records), checkpoint=replace(spec.checkpoint, every_ms=every_ms)
        )

    pipeline.redefine(change)


def _await(pipeline: Running, step: int) -> None:
    pipeline.await_steps(lambda steps: len(steps) >= step, str(step))


async def _checkpoints(bootstrap_servers: str, name: str) -> list[Checkpoint]:
    """All that were ever recorded; the log is not compacted so soon."""
    log = KafkaStepsLog(ClusterSettings(bootstrap_servers=bootstrap_servers), name)
    try:
        return [each.record for each in await log.read_to_end() if isinstance(each.record, Checkpoint)]
    finally:
        await log.close()


def saving_cost(
    size: Measurement, steps: Sequence[Boundary], windows: Sequence[Window], checkpoints: Sequence[Checkpoint]
) -> SavingCost:
    """What the windows of one size tell. steps: all of the log, from step 1 on.

    A step of a window without checkpoints that overlaps with one, begun before the window, is left out.
    """
    took: dict[bool, list[float]] = {True: [], False: []}
    made = []
    for window in windows:
        within = steps[window.after - 1 : window.last]
        begins, ends = within[0]["committed_ms"], within[-1]["committed_ms"]
        for before, step, measured in zip(within, within[1:], measured_steps(within), strict=False):
            check_written(size.workload, step, size.step_records)
            if window.saving or not _saved_between(checkpoints, before["committed_ms"], step["committed_ms"]):
                took[window.saving].append(measured.period_ms)
        made += [each for each in checkpoints if window.saving and begins <= each.begun_ms <= ends]
    without, with_ = Tail.of(took[False]), Tail.of(took[True])
    return SavingCost(
        size.step_records,
        without,
        with_,
        with_.median / without.median,
        with_.p99 / without.p99,
        len(made),
        Spread.of(sum(part.size_bytes for part in each.parts) for each in made),
        Spread.of(each.now_ms - each.begun_ms for each in made),
    )


def _saved_between(checkpoints: Sequence[Checkpoint], begin_ms: float, end_ms: float) -> bool:
    return any(each.begun_ms < end_ms and begin_ms < each.now_ms for each in checkpoints)
