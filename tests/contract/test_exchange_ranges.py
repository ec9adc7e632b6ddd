"""What is promised of rows that are read before their transaction ends: in memory and on a real Kafka."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Run, Sent
from kcontrol.adapters.kafka.exchange.writer import ExchangeWriter
from kcontrol.core.model import ExchangeSlice, FailureKind
from kcontrol.errors import FencedError, StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from tests.contract.conftest import ProxiedBroker
from tests.fakes.memory_exchange import MemoryExchange
from tests.fakes.memory_kafka import Fate, MemoryKafka
from tests.integration.data_path import Owner, topic_id
from tests.integration.exchanges import runs_for
from tests.support.patience import HANG_S
from tests.support.topics import create_topic

SLOTS, NODES, DEADLINE_S = 2, 2, HANG_S
SCHEMA = pa.schema([("row", pa.string())])
Rows = Mapping[int, Sequence[str]]
"""By node."""


class ExchangeWorld(Protocol):
    """One exchange, and who owns the transaction."""

    async def begin(self) -> tuple[int, int]:
        """A new attempt; what was open is aborted."""
        ...

    async def end(self, commit: bool) -> None: ...

    async def send(self, producer: tuple[int, int], slot: int, rows: Rows) -> ExchangeSlice: ...

    async def read(self, runs: Sequence[Run], sent: Sent) -> list[str]: ...


class InMemory:
    def __init__(self) -> None:
        self._kafka = MemoryKafka()
        self._exchange = MemoryExchange(self._kafka, "p", "x")

    async def begin(self) -> tuple[int, int]:
        await self.end(commit=False)
        state = self._kafka.transaction("p")
        state.epoch += 1
        state.added |= {("x", slot) for slot in range(SLOTS)}
        return state.producer_id, state.epoch

    async def end(self, commit: bool) -> None:
        self._kafka.transaction("p").end(Fate.VISIBLE if commit else Fate.HIDDEN, self._kafka.partition)

    async def send(self, producer: tuple[int, int], slot: int, rows: Rows) -> ExchangeSlice:
        return self._exchange.send(producer, 1, slot, rows)

    async def read(self, runs: Sequence[Run], sent: Sent) -> list[str]:
        return await self._exchange.read(runs, sent)


@dataclass
class OnKafka:
    settings: ClusterSettings
    topic: str = field(default_factory=lambda: f"exchange-{secrets.token_hex(4)}")

    def __post_init__(self) -> None:
        create_topic(self.settings, self.topic, SLOTS)
        self._owner = Owner(self.settings)

    async def begin(self) -> tuple[int, int]:
        slots = [(self.topic, slot) for slot in range(SLOTS)]
        return await asyncio.to_thread(self._owner.begin, slots)

    async def end(self, commit: bool) -> None:
        await asyncio.to_thread(self._owner.end, commit)

    async def send(self, producer: tuple[int, int], slot: int, rows: Rows) -> ExchangeSlice:
        return await asyncio.to_thread(self._send, producer, slot, rows)

    def _send(self, producer: tuple[int, int], slot: int, rows: Rows) -> ExchangeSlice:
        who = StepTransaction(self._owner.transactional_id, *producer, 1)
        writer = ExchangeWriter(self.settings, who, "x", self.topic, slot, NODES)
        for node, mine in rows.items():
            batch = pa.RecordBatch.from_arrays([pa.array(mine)], schema=SCHEMA)
            hashes = np.zeros(len(mine), np.int64)
            writer.write(batch, np.full(len(mine), node, np.int32), hashes, hashes)
        sent = writer.finish()
        assert sent is not None
        return sent

    async def read(self, runs: Sequence[Run], sent: Sent) -> list[str]:
        return await asyncio.to_thread(self._read, runs, sent)

    def _read(self, runs: Sequence[Run], sent: Sent) -> list[str]:
        reader = ExchangeReader(self.settings, "x", self.topic, topic_id(self.settings, self.topic), SCHEMA)
        return [row for batch in reader.read(runs, sent) for row in batch.column("row").to_pylist()]


Scenario = Callable[[ExchangeWorld], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture(params=["memory", "kafka"])
def run(request: pytest.FixtureRequest) -> Play:
    """`run(scenario)` runs a coroutine function in a world of its own, to its end or to the deadline."""
    world: ExchangeWorld = InMemory()
    if request.param == "kafka":
        proxied: ProxiedBroker = request.getfixturevalue("proxied_broker")
        world = OnKafka(ClusterSettings(bootstrap_servers=proxied.broker.bootstrap_servers))
    return lambda scenario: asyncio.run(asyncio.wait_for(scenario(world), DEADLINE_S))


def by(producer: tuple[int, int], node: int = 0, committed: bool = False) -> Sent:
    return Sent(1, node, *producer, committed=committed)


def test_rows_of_an_open_transaction_are_read_and_the_same_ones_after_it_has_committed(run: Play) -> None:
    async def scenario(world: ExchangeWorld) -> None:
        producer = await world.begin()
        slices = [
            await world.send(producer, 0, {0: ["a", "b"], 1: ["c"]}),
            await world.send(producer, 1, {0: ["d"]}),
        ]
        for committed in (False, True):
            assert await world.read(runs_for(0, *slices), by(producer, 0, committed)) == ["a", "b", "d"]
            assert await world.read(runs_for(1, *slices), by(producer, 1, committed)) == ["c"]
            if not committed:
                await world.end(commit=True)

    run(scenario)


def test_of_an_aborted_transaction_a_committed_read_gives_nothing(run: Play) -> None:
    async def scenario(world: ExchangeWorld) -> None:
        producer = await world.begin()
        sent = await world.send(producer, 0, {0: ["a"], 1: ["b"]})
        await world.end(commit=False)
        for node in range(NODES):
            assert await world.read(runs_for(node, sent), by(producer, node, committed=True)) == []

    run(scenario)


def test_what_another_epoch_has_written_is_refused_whichever_read_it_is(run: Play) -> None:
    async def scenario(world: ExchangeWorld) -> None:
        first = await world.begin()
        stale = await world.send(first, 0, {0: ["a"]})
        second = await world.begin()
        fresh = await world.send(second, 0, {0: ["b"]})
        await world.end(commit=True)
        assert await world.read(runs_for(0, fresh), by(second, committed=True)) == ["b"]
        for committed in (False, True):
            with pytest.raises(StepFailedError) as caught:
                await world.read(runs_for(0, stale), by(second, committed=committed))
            assert caught.value.kind is FailureKind.LOST

    run(scenario)


def test_what_is_for_another_node_or_of_another_step_is_refused(run: Play) -> None:
    async def scenario(world: ExchangeWorld) -> None:
        producer = await world.begin()
        sent = await world.send(producer, 0, {0: ["a"]})
        for wrong in (by(producer, node=1), replace(by(producer), step=2)):
            with pytest.raises(StepFailedError) as caught:
                await world.read(runs_for(0, sent), wrong)
            assert caught.value.kind is FailureKind.LOST

    run(scenario)


def test_a_reader_that_is_early_waits_for_the_rows(run: Play) -> None:
    async def scenario(world: ExchangeWorld) -> None:
        producer = await world.begin()
        reading = asyncio.create_task(world.read([(0, 0, 1)], by(producer)))
        done, _ = await asyncio.wait([reading], timeout=0.3)
        assert not done
        await world.send(producer, 0, {0: ["late"]})
        assert await reading == ["late"]

    run(scenario)


def test_whoever_was_fenced_sends_nothing(run: Play) -> None:
    async def scenario(world: ExchangeWorld) -> None:
        old = await world.begin()
        new = await world.begin()
        with pytest.raises(FencedError):
            await world.send(old, 0, {0: ["late"]})
        sent = await world.send(new, 0, {0: ["right"]})
        assert await world.read(runs_for(0, sent), by(new)) == ["right"]

    run(scenario)
