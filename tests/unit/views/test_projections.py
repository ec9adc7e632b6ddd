"""A server that follows logs for long, and what compaction does to one that is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kcontrol.adapters.clock import SystemClock
from kcontrol.core.model import PipelineSpec
from kcontrol.errors import NotFoundError
from kcontrol.views.cluster_projection import NotReadyError, Projections
from tests.fakes.memory_kafka import STEPS, Fate, MemoryControlLog, MemoryKafka, MemorySource
from tests.unit.core.made import SPEC, boundary
from tests.unit.sessions.test_coordinator_session import until


def _step(projections: Projections) -> int:
    """The last step that is shown; -1 while nothing is."""
    try:
        return projections.get("p").committed.step
    except (NotReadyError, NotFoundError):
        return -1


def _follow(play: Callable[[MemoryKafka, Projections], object], spec: PipelineSpec = SPEC) -> None:
    async def run() -> None:
        kafka = MemoryKafka()
        await MemoryControlLog(kafka, None).append([spec])
        projections = Projections(MemorySource(kafka), SystemClock())
        task = asyncio.create_task(projections.run())
        try:
            await play(kafka, projections)  # type: ignore[misc]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_one_that_was_left_behind_by_compaction_reads_anew_what_is_left() -> None:
    async def play(kafka: MemoryKafka, projections: Projections) -> None:
        log = kafka.partition(f"p.{STEPS}")
        log.append(boundary(1, (5, 0), (6, 1)), Fate.VISIBLE)
        await until(lambda: _step(projections) == 1)
        log.entries[0].fate = Fate.HIDDEN
        log.append(boundary(2, (6, 1), (7, 2)), Fate.HIDDEN)
        log.append(boundary(3, (7, 2), (8, 3)), Fate.VISIBLE)
        await until(lambda: _step(projections) == 3)
        shown = projections.get("p")
        assert (shown.committed.first, [one.offset for one in shown.recent], shown.index.offset_of(1)) == (
            3,
            [2],
            None,
        )
        assert projections.broken() == {}

    _follow(play)


def test_a_log_with_a_gap_is_shown_no_more_and_says_why() -> None:
    async def play(kafka: MemoryKafka, projections: Projections) -> None:
        log = kafka.partition(f"p.{STEPS}")
        log.append(boundary(1, (5, 0), (6, 1)), Fate.VISIBLE)
        log.append(boundary(3, (7, 2), (8, 3)), Fate.VISIBLE)
        await until(lambda: bool(projections.broken()))
        assert "holds step 3 after step 1" in projections.broken()["p"]

    _follow(play)


def test_a_pipeline_that_was_deleted_is_not_shown_and_one_of_its_name_begins_with_another_log() -> None:
    async def play(kafka: MemoryKafka, projections: Projections) -> None:
        log, control = kafka.partition(f"p.{STEPS}"), MemoryControlLog(kafka, None)
        log.append(boundary(1, (5, 0), (6, 1)), Fate.VISIBLE)
        await until(lambda: _step(projections) == 1)
        await control.append([], ["p/spec", "p/status"])
        await until(lambda: projections.known() == [])
        log.entries.clear()
        await control.append([SPEC])
        await until(lambda: _step(projections) == 0)
        shown = projections.get("p")
        assert (shown.committed.step, list(shown.recent), shown.steps_offset) == (0, [], -1)
        log.append(boundary(1, (5, 0), (7, 1)), Fate.VISIBLE)
        await until(lambda: _step(projections) == 1)
        assert projections.get("p").committed.next_from["in", 0] == 7
        assert projections.broken() == {}

    _follow(play)
