"""Places in a long log of steps are found without reading it: by step, and the newest checkpoint from the
end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs import partition_reader, step_search
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.kept_steps import KeptSteps
from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.core.model import Logged, LoggedStep, StepBoundary
from kcontrol.settings.cluster import ClusterSettings
from tests.support.owning import commit_at_end
from tests.support.samples import boundary, checkpoint
from tests.support.transactions import TRANSACTION_MS

STEPS = 60
SAVED = 20

Body = Callable[[ClusterSettings], Awaitable[None]]


@pytest.fixture
def long_log(settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch) -> Callable[[Body], None]:
    """Runs a coroutine on a pipeline `p` of many steps, with windows that are small beside it."""
    monkeypatch.setattr(step_search, "FIRST_WINDOW", 4)
    monkeypatch.setattr(step_search, "NEAR_ENOUGH", 4)
    monkeypatch.setattr(partition_reader, "SOME_BYTES", 600)
    own = settings.model_copy(update={"prefix": f"s{secrets.token_hex(4)}"})
    ensure_topics(own, "p", 1)
    topic = own.names().steps_topic("p")

    async def play(body: Body) -> None:
        transaction = KafkaTransaction(own, "p")
        try:
            for step in range(1, STEPS + 1):
                producer = await transaction.init_producer(TRANSACTION_MS)
                await transaction.add_partitions(*producer, [(topic, 0)])
                await commit_at_end(own, transaction, producer, boundary("p", step, producer))
                if step == SAVED:
                    producer = await transaction.init_producer(TRANSACTION_MS)
                    await transaction.add_partitions(*producer, [(topic, 0)])
                    saved = replace(checkpoint("p", step), begin_offset=await _offset(own, step))
                    await commit_at_end(own, transaction, producer, saved, ["step/1", "step/2"])
        finally:
            await transaction.close()
        await body(own)

    return lambda body: asyncio.run(play(body))


async def _offset(settings: ClusterSettings, step: int) -> int:
    log = KafkaStepsLog(settings, "p")
    try:
        read = await log.read_to_end()
    finally:
        await log.close()
    return next(
        one.offset for one in read if isinstance(one.record, StepBoundary) and one.record.step == step
    )


def test_steps_and_checkpoints_are_found(long_log: Callable[[Body], None]) -> None:
    async def body(settings: ClusterSettings) -> None:
        for step in (1, 2, 3, SAVED, SAVED + 1, STEPS - 1, STEPS, STEPS + 1):
            log = KafkaStepsLog(settings, "p")
            try:
                await log.begin_at_step(step)
                read = await log.read_through(min(step, STEPS))
            finally:
                await log.close()
            found = [one.record.step for one in read if isinstance(one.record, StepBoundary)]
            assert min(step, STEPS) in found
            assert len(found) < STEPS // 2, "most of the log is left out"
        log = KafkaStepsLog(settings, "p")
        try:
            newest = await log.begin_at_checkpoint()
            assert newest is not None
            assert newest.step == SAVED
            read = await log.read_to_end()
            assert [one.record.step for one in read if isinstance(one.record, StepBoundary)] == list(
                range(SAVED, STEPS + 1)
            )
        finally:
            await log.close()

    long_log(body)


@pytest.mark.parametrize("since", [5, SAVED, 50])
def test_steps_that_were_read_are_read_on_and_older_ones_are_read_again(
    long_log: Callable[[Body], None], since: int
) -> None:
    async def body(settings: ClusterSettings) -> None:
        log = KafkaStepsLog(settings, "p")
        kept = KeptSteps(cast("PipelineLogs", _ReadFromCheckpoint(log)), since)

        async def steps(first: int) -> list[int]:
            return [one.step for one in await kept.boundaries(first)]

        try:
            assert await steps(1) == [], "none was read yet"
            await kept.read()
            stood = log.position
            for first in (30, 10, SAVED - 1, 3, since, 55):
                assert await steps(first) == list(range(first, STEPS + 1))
            assert log.position == stood
            await kept.read()
            assert await steps(since) == list(range(since, STEPS + 1))
        finally:
            await log.close()

    long_log(body)


class _ReadFromCheckpoint:
    """Of a pipeline's two logs, that of its steps."""

    def __init__(self, steps: KafkaStepsLog) -> None:
        self.steps = steps
        self._begun = False

    async def read(self) -> tuple[list[Logged], list[LoggedStep]]:
        if not self._begun:
            await self.steps.begin_at_checkpoint()
        self._begun = True
        return [], await self.steps.read_to_end()
