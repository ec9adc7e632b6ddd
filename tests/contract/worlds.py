"""The same handful of processes around one cluster, once in memory and once on a real Kafka."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Protocol

from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.boundary_write import TransactionalWrite
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.sessions.ports import ControlLog, OwnedStepsLog, StepsArchive, Transaction
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import STEPS, Loss, MemoryControlLog, MemoryKafka, MemoryStepsLog, MemoryTransaction
from tests.support.proxy import END_TXN, Cut, Proxy

OUT = "out"


class World(Protocol):
    """What the contract needs beyond the ports: more processes, writers that join a transaction, and lost commits."""

    pipeline: str

    async def control(self, pipeline: str | None = None) -> ControlLog: ...

    async def steps(self) -> OwnedStepsLog: ...

    async def archive(self) -> StepsArchive: ...

    async def transaction(self) -> Transaction: ...

    def partitions(self) -> list[tuple[str, int]]:
        """The steps partition and both partitions of the output."""
        ...

    async def write(self, producer: tuple[int, int], partition: int, value: str) -> None: ...

    def lose_next_commit(self, cut: Cut) -> None: ...


class MemoryWorld:
    pipeline = "contract"

    def __init__(self) -> None:
        self._kafka = MemoryKafka()

    async def control(self, pipeline: str | None = None) -> ControlLog:
        return MemoryControlLog(self._kafka, pipeline or self.pipeline)

    async def steps(self) -> OwnedStepsLog:
        return MemoryStepsLog(self._kafka, self.pipeline)

    async def archive(self) -> StepsArchive:
        return MemoryStepsLog(self._kafka, self.pipeline)

    async def transaction(self) -> Transaction:
        return MemoryTransaction(self._kafka, self.pipeline)

    def partitions(self) -> list[tuple[str, int]]:
        return [(f"{self.pipeline}.{STEPS}", 0), (OUT, 0), (OUT, 1)]

    async def write(self, producer: tuple[int, int], partition: int, value: str) -> None:
        self._kafka.write(self.pipeline, producer, OUT, partition, [value])

    def lose_next_commit(self, cut: Cut) -> None:
        self._kafka.transaction(self.pipeline).loss = Loss.REQUEST if cut is Cut.REQUEST else Loss.ANSWER


class KafkaWorld:
    """Logs go to the broker directly, the transaction's owner through the proxy."""

    pipeline = "contract"

    def __init__(
        self, direct: ClusterSettings, proxied: ClusterSettings, out: str, proxy: Proxy, stack: AsyncExitStack
    ) -> None:
        self._direct = direct
        self._proxied = proxied
        self._out = out
        self._proxy = proxy
        self._stack = stack

    async def control(self, pipeline: str | None = None) -> ControlLog:
        log = await KafkaControlLog.open(self._direct, pipeline or self.pipeline)
        self._stack.push_async_callback(log.close)
        return log

    async def steps(self) -> OwnedStepsLog:
        return await self._steps_log()

    async def archive(self) -> StepsArchive:
        return await self._steps_log()

    async def _steps_log(self) -> KafkaStepsLog:
        log = KafkaStepsLog(self._direct, self.pipeline)
        self._stack.push_async_callback(log.close)
        return log

    async def transaction(self) -> Transaction:
        transaction = KafkaTransaction(self._proxied, self.pipeline)
        self._stack.push_async_callback(transaction.close)
        return transaction

    def partitions(self) -> list[tuple[str, int]]:
        return [(f"{self._direct.prefix}.{self.pipeline}.steps", 0), (self._out, 0), (self._out, 1)]

    async def write(self, producer: tuple[int, int], partition: int, value: str) -> None:
        rpc = KafkaRpc(self._direct)
        try:
            write = TransactionalWrite(Partitions(rpc), f"{self._direct.prefix}.{self.pipeline}", producer, 10_000)
            await write.send(self._out, partition, [(b"k", value.encode())])
        finally:
            await rpc.close()

    def lose_next_commit(self, cut: Cut) -> None:
        self._proxy.cut_next(END_TXN, cut)
