"""From assigned partitions to running sessions: opens the Kafka side of every keeper and session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.exchange.purge import KafkaExchangePurge
from kcontrol.adapters.kafka.logs.control_decoder import ControlDecoder
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.core.coordinator.decide import CoordinatorState
from kcontrol.core.model import Logged
from kcontrol.errors import AccessError
from kcontrol.sessions.coordinator import CoordinatorPorts, CoordinatorSession
from kcontrol.sessions.observers import NOBODY, CoordinatorObserver
from kcontrol.sessions.partition_keeper import PartitionKeeper
from kcontrol.settings.cluster import ClusterSettings


class PartitionSessions:
    """The keepers of all partitions that this process is assigned."""

    def __init__(
        self,
        settings: ClusterSettings,
        partitions: int,
        denied: Callable[[AccessError], None],
        observer: CoordinatorObserver = NOBODY,
    ) -> None:
        """partitions: how many the control topic has. denied: told that Kafka does not let this process
        work."""
        self._denied = denied
        self._observer = observer
        self._settings = settings
        self._names = settings.names()
        self._partitions = partitions
        self._keepers: dict[int, tuple[PartitionKeeper, ControlDecoder]] = {}

    async def assign(self, partitions: Collection[int]) -> None:
        """From now on exactly these are ours. What is kept goes on undisturbed."""
        gone = [self._keepers.pop(partition)[0] for partition in sorted(set(self._keepers) - set(partitions))]
        for keeper, _ in self._keepers.values():
            keeper.confirm()
        for partition in sorted(set(partitions) - set(self._keepers)):
            decoder = ControlDecoder(self._names.control_topic(), partition, self._partitions)
            fold = partial(self._fold, partition)
            keeper = PartitionKeeper(partition, fold, self._open_session, self._denied)
            self._keepers[partition] = (keeper, decoder)
            keeper.start()
        await asyncio.gather(*(keeper.stop() for keeper in gone))

    def push(self, partition: int, record: RawRecord) -> None:
        """Hand a record that Faust has delivered to the sessions of its partition."""
        if partition in self._keepers:
            keeper, decoder = self._keepers[partition]
            keeper.push(record.offset, decoder.decode(record))

    async def stop(self) -> None:
        """End all sessions."""
        await self.assign(())

    async def _fold(self, partition: int) -> list[Logged]:
        control = await KafkaControlLog.open(self._settings, partition=partition)
        try:
            return await control.read_to_end()
        finally:
            await control.close()

    @asynccontextmanager
    async def _open_session(self, pipeline: str) -> AsyncIterator[CoordinatorSession]:
        control = await KafkaControlLog.open(self._settings, pipeline=pipeline)
        steps = KafkaStepsLog(self._settings, pipeline)
        transaction = KafkaTransaction(self._settings, pipeline)
        state = CoordinatorState.initial(
            pipeline,
            transactional_id=self._names.transactional_id(pipeline),
            steps_topic=self._names.steps_topic(pipeline),
        )
        try:
            purge = KafkaExchangePurge(self._settings, pipeline)
            ports = CoordinatorPorts(SystemClock(), control, steps, transaction, purge)
            yield CoordinatorSession(state, ports, observer=self._observer)
        finally:
            await asyncio.gather(control.close(), steps.close(), transaction.close())
