"""One transaction, many processes that write in it: readers see whole steps, and of committed ones only."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import random
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack

import pytest

from examples.topic_reading import read_topics
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.core.model import OutputSlice, StepBoundary
from kcontrol.errors import FencedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import warm
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import PARTITIONS, PIPELINE, StepsMaker
from tests.support.owning import commit, commit_at_end
from tests.support.patience import HANG_S
from tests.support.transactions import TRANSACTION_MS

STEPS = 12
WRITERS = 3
_WAIT_S = HANG_S


def _write(
    maker: StepsMaker, producer: tuple[int, int], number: int, output: str, partition: int
) -> list[OutputSlice]:
    """Runs in another process."""
    values = [b"%d-%d" % (number, index) for index in range(50)]
    return maker.write_partition(producer, number, output, partition, values)


def _committed(settings: ClusterSettings, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """By partition, what a plain read_committed consumer finds: (step of the header, value)."""
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for message in read_topics(settings.bootstrap_servers, [topic]):
        found[message.partition()].append((int(dict(message.headers())["step"]), message.value()))
    return dict(found)


def test_read_committed_consumers_see_whole_steps_written_by_many_processes_and_no_aborted_one(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    maker = StepsMaker(settings, topic_factory)
    seed = random.randrange(2**32)
    logging.getLogger(__name__).warning("seed %d", seed)
    choose = random.Random(seed)
    work = [(output, partition) for output in maker.topics for partition in range(PARTITIONS)]
    boundaries: list[StepBoundary] = []

    async def run(pool: ProcessPoolExecutor, stack: AsyncExitStack) -> list[StepBoundary]:
        transaction = KafkaTransaction(maker.settings, PIPELINE)
        stack.push_async_callback(transaction.close)
        loop = asyncio.get_running_loop()
        # Starting and compiling can outlast a transaction on a busy machine.
        await asyncio.gather(*(loop.run_in_executor(pool, warm) for _ in range(WRITERS)))
        number = 1
        while number <= STEPS:
            producer = await maker.begin(transaction)
            writes = [loop.run_in_executor(pool, _write, maker, producer, number, *each) for each in work]
            written: Sequence[list[OutputSlice]] = await asyncio.gather(*writes)
            if choose.random() < 0.3:
                continue  # the next begin aborts it
            boundary = maker.boundary(number, producer, [part for parts in written for part in parts])
            await commit_at_end(maker.settings, transaction, producer, boundary)
            boundaries.append(boundary)
            number += 1
        await transaction.init_producer(TRANSACTION_MS)
        log = KafkaStepsLog(maker.settings, PIPELINE)
        stack.push_async_callback(log.close)
        return [
            logged.record for logged in await log.read_to_end() if isinstance(logged.record, StepBoundary)
        ]

    async def main() -> list[StepBoundary]:
        with ProcessPoolExecutor(WRITERS, multiprocessing.get_context("spawn")) as pool:
            async with AsyncExitStack() as stack:
                return await run(pool, stack)

    assert asyncio.run(main()) == boundaries
    expected = [(number, b"%d-%d" % (number, index)) for number in range(1, STEPS + 1) for index in range(50)]
    for topic in maker.topics.values():
        assert _committed(maker.settings, topic) == dict.fromkeys(range(PARTITIONS), expected)


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_writer_that_comes_late_is_refused(
    settings: ClusterSettings, topic_factory: TopicFactory, ends: str
) -> None:
    maker = StepsMaker(settings, topic_factory)

    async def main() -> tuple[int, int]:
        async with AsyncExitStack() as stack:
            transaction = KafkaTransaction(maker.settings, PIPELINE)
            stack.push_async_callback(transaction.close)
            producer = await maker.begin(transaction)
            if ends == "commit":
                steps = KafkaStepsLog(maker.settings, PIPELINE)
                stack.push_async_callback(steps.close)
                await commit(transaction, steps, producer, maker.boundary(1, producer, []))
            else:
                await transaction.init_producer(TRANSACTION_MS)
            return producer

    producer = asyncio.run(main())
    with pytest.raises(FencedError):
        maker.write_partition(producer, 1, "delays", 0, [b"late"])
