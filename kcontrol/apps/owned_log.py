"""The log of steps of a pipeline for whoever writes one record to it, as the owner of its transaction for a moment.

Whoever made steps before is fenced, all that was committed is read before anything is decided, and a record that meets with
anything else leaves no trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import reduce

from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.settings.cluster import ClusterSettings

TIMEOUT_MS = 60_000
"""Of the transaction, in which one record is written."""


class OwnedLog:
    """Of one pipeline. transaction: to write with. log: read up to where the record has to come to lie."""

    def __init__(self, pipeline: str, transaction: KafkaTransaction, log: KafkaStepsLog) -> None:
        self._pipeline, self.transaction, self.log = pipeline, transaction, log
        self._read: StepsView | None = None

    async def fence(self) -> tuple[tuple[int, int], StepsView]:
        """The producer, and all that is committed. Called again after a commit of which nobody knows. Raises as
        `KafkaTransaction.init_producer` and `KafkaStepsLog` do."""
        producer = await self.transaction.init_producer(TIMEOUT_MS)
        if self._read is None:
            newest = await self.log.begin_at_checkpoint()
            self._read = (
                StepsView(self._pipeline) if newest is None else StepsView.begun_at(self._pipeline, newest)
            )
        self._read = reduce(evolve, await self.log.read_settled(self.transaction.log_end), self._read)
        return producer, self._read


@asynccontextmanager
async def owned_log(cluster: ClusterSettings, pipeline: str) -> AsyncIterator[OwnedLog]:
    """Nothing is fenced yet."""
    transaction, log = KafkaTransaction(cluster, pipeline), KafkaStepsLog(cluster, pipeline)
    try:
        yield OwnedLog(pipeline, transaction, log)
    finally:
        await asyncio.gather(transaction.close(), log.close())
