"""The same handful of processes around one cluster: in memory, on the simulator's broker, and on a real
Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Protocol, TypeVar

from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.boundary_write import TransactionalWrite
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.errors import FencedError
from kcontrol.sessions.ports import ControlLog, OwnedStepsLog, StepsArchive, Transaction
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import (
    STEPS,
    Loss,
    MemoryControlLog,
    MemoryKafka,
    MemoryStepsLog,
    MemoryTransaction,
)
from tests.simulation import broker
from tests.simulation.ports import BrokersControlLog, BrokersStepsLog, BrokersTransaction, Lost
from tests.support.patience import HANG_MS
from tests.support.proxy import END_TXN, Cut, Proxy

OUT = "out"
_T = TypeVar("_T")


class World(Protocol):
    """What the contract needs beyond the ports: more processes, writers that join a
    transaction, and lost commits."""

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

    def __init__(self, tells_epochs: bool) -> None:
        self._kafka = MemoryKafka(tells_epochs=tells_epochs)

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


class ShortWire:
    """Every request arrives at once, and every answer, unless a commit is to be lost."""

    def __init__(self) -> None:
        self.version = 0
        self.cut: Cut | None = None
        self._changed = asyncio.Event()

    async def request(self, what: str, do: Callable[[], _T]) -> _T:
        await asyncio.sleep(0)
        cut = self.cut if what == "commit" else None
        self.cut = None if cut else self.cut
        if cut is Cut.REQUEST:
            raise Lost
        done = do()
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()
        if cut is not None:
            raise Lost
        return done

    async def changed(self, since: int) -> None:
        while self.version == since:
            await self._changed.wait()


class SimulatedWorld:
    """The broker of the simulator."""

    pipeline = "contract"

    def __init__(self, tells_epochs: bool) -> None:
        self._broker = broker.Broker(0)
        self._broker.tells_epochs = tells_epochs
        self._wire = ShortWire()

    async def control(self, pipeline: str | None = None) -> ControlLog:
        return BrokersControlLog(self._broker, self._wire, pipeline or self.pipeline)

    async def steps(self) -> OwnedStepsLog:
        return BrokersStepsLog(self._broker, self._wire)

    async def archive(self) -> StepsArchive:
        return BrokersStepsLog(self._broker, self._wire)

    async def transaction(self) -> Transaction:
        return BrokersTransaction(self._broker, self._wire)

    def partitions(self) -> list[tuple[str, int]]:
        return [broker.STEPS, (OUT, 0), (OUT, 1)]

    async def write(self, producer: tuple[int, int], partition: int, value: str) -> None:
        try:
            self._broker.check_write(producer[1], (OUT, partition))
        except broker.Fenced as error:
            raise FencedError("not this producer's") from error

    def lose_next_commit(self, cut: Cut) -> None:
        self._wire.cut = cut


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
            write = TransactionalWrite(
                Partitions(rpc), f"{self._direct.prefix}.{self.pipeline}", producer, HANG_MS
            )
            await write.send(self._out, partition, [(b"k", value.encode())])
        finally:
            await rpc.close()

    def lose_next_commit(self, cut: Cut) -> None:
        self._proxy.cut_next(END_TXN, cut)
