"""A node without Spark: `python -m bench.quick_node BROKERS PIPELINE`, until its standard input is closed.

All of it is the product's own, its session, its logs, its watcher of input, but for the engine, which reads
and writes nothing and answers at once. So the control plane makes many times as many steps in an hour as with
Spark.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.read.watcher import KafkaInputWatcher
from kcontrol.core.model import (
    EMPTY_DIGEST,
    Checkpoint,
    InputSlice,
    InputSpec,
    SavedFiles,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.sessions.node import NodePorts, NodeSession
from kcontrol.settings.cluster import ClusterSettings


class QuickEngine:
    """Holds nothing: it can be opened at step 0 and at every checkpoint, as if it had restored it."""

    def __init__(self) -> None:
        self._step = 0

    def openable(self) -> tuple[int, ...]:
        return (self._step,) if self._step else ()

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        return tuple(one.step for one in checkpoints)

    async def open(self, step: int, *_: object) -> None:
        self._step = step

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:  # noqa: ARG002 - none is replayed
        read = (
            InputSlice(p.input, p.topic, p.topic_id, p.partition, p.from_, p.to, p.to - p.from_, EMPTY_DIGEST)
            for p in work.division
        )
        return StepResult(tuple(read), (), (), watermark_moved=False)

    def make_ready(self, *_: object) -> None: ...

    async def run_stage(self, *_: object) -> StepResult:
        raise AssertionError("there is one stage")

    async def finish_step(self, step: int, *_: object) -> None:
        self._step = step

    async def pin(self, step: int) -> None: ...

    async def save(self, step: int, *_: object) -> SavedFiles:
        return SavedFiles(f"manifests/step-{step}.json", 1, 1_000)

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None: ...

    def cancel(self) -> None: ...

    async def close(self) -> None: ...


async def run(bootstrap_servers: str, pipeline: str) -> None:
    """One life of node 0 of a pipeline that was submitted. Raises what the session raises."""
    settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
    control, steps = await KafkaControlLog.open(settings, pipeline), KafkaStepsLog(settings, pipeline)

    def watch(
        item: InputSpec, from_: Mapping[int, int], takes: Callable[[int], bool], _last: object
    ) -> KafkaInputWatcher:
        return KafkaInputWatcher(settings, item.topic, from_, takes)

    session = NodeSession(
        pipeline, 0, NodePorts(SystemClock(), control, steps, lambda *_: QuickEngine(), watch)
    )
    working = asyncio.create_task(session.run())
    parent = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read))
    done, _ = await asyncio.wait((working, parent), return_when=asyncio.FIRST_COMPLETED)
    working.cancel()
    if working in done:
        raise RuntimeError(f"the node has ended: {working.result()}")


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
