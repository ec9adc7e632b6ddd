"""The ports of the sessions on the simulated broker: what each call asks it, in how many
requests, and what an answer is.

How long a request is on its way, and whether it or its answer is lost, is the business of the wire (`Wire`):
the contract suite runs on one that loses nothing unless it is told to, the simulation of the sessions on a
seeded one (sessions/network.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeVar

from kcontrol.core.log.keys import BARRIER_KEY, key_of
from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    ControlRecord,
    Logged,
    LoggedStep,
    StepBoundary,
    StepRecord,
    Tombstone,
)
from kcontrol.errors import CommitUnknownError, FencedError, RetriableError, UnseenRecordError
from kcontrol.sessions.ports import NextTransaction
from kcontrol.wire.keys import pipeline_of
from tests.simulation.broker import PRODUCER_ID, STEPS, Broker, Fenced
from tests.simulation.replicas import Replicas, Route

_T = TypeVar("_T")

SETTLE_MS = 20_000
"""A read that must reach a certain offset gives up after so long."""
_AGAIN_S = 0.005


class Lost(Exception):
    """No answer came: the request may have arrived or not."""


class Wire(Protocol):
    """How one process reaches the broker."""

    async def request(self, what: str, do: Callable[[], _T]) -> _T:
        """Have `do` done at the broker; its result, or what it raised, is the answer. Raises Lost."""
        ...

    @property
    def version(self) -> int:
        """Grows whenever readers may find something new."""
        ...

    async def changed(self, since: int) -> None:
        """Return when the version is another one than `since`, or has been for long."""
        ...


async def asked(wire: Wire, what: str, do: Callable[[], _T]) -> _T:
    """The answer to a request. Raises RetriableError."""
    try:
        return await wire.request(what, do)
    except Lost as error:
        raise RetriableError(f"{what}: no answer") from error


class _Reader:
    """A position in one partition. `position`: the next offset. One read at a time moves it."""

    def __init__(self, wire: Wire, replicas: Replicas) -> None:
        self.wire = wire
        self.replicas = replicas
        self.routes = {"fetch": Route(replicas.epoch), "prompt": Route(replicas.epoch)}
        """Of the connection that waits for records, and of the one that looks for the end."""
        self.position = 0
        self._turn = asyncio.Lock()

    async def read(
        self, ends: Callable[[Route], tuple[int, int]], at_least: int, settled: bool
    ) -> tuple[int, int]:
        """Move to the end that the broker names; the offsets that were passed. ends: end and high
        watermark, by what the broker knows that is asked. Raises RetriableError when `at_least` is not
        reached in time."""
        route, loop = self.routes["prompt"], asyncio.get_running_loop()
        began = loop.time()
        async with self._turn:
            while True:
                end, high_watermark = await self.ask("end", lambda: ends(route))
                if end >= at_least and (end == high_watermark or not settled):
                    break
                if loop.time() - began > SETTLE_MS / 1000:
                    raise RetriableError(f"{end} of {max(high_watermark, at_least)} was reached")
                route.epoch = self.replicas.epoch
                await asyncio.sleep(_AGAIN_S)
            await self.ask("fetch", lambda: None)
            return self._move(end)

    async def follow(self, ends: Callable[[Route], tuple[int, int]]) -> AsyncIterator[tuple[int, int]]:
        """Offsets that were passed, whenever there are more."""
        route = self.routes["fetch"]
        while True:
            end, version = await self.ask("fetch", lambda: (ends(route)[0], self.wire.version))
            if end > self.position:
                async with self._turn:
                    passed = self._move(end)
                yield passed
            else:
                await self.wire.changed(version)

    def _move(self, end: int) -> tuple[int, int]:
        begin, self.position = self.position, max(self.position, end)
        return begin, self.position

    async def ask(self, what: str, do: Callable[[], _T]) -> _T:
        return await asked(self.wire, what, do)


class BrokersControlLog:
    """The ControlLog of one process. pipeline: None to see all of the partition."""

    def __init__(self, broker: Broker, wire: Wire, pipeline: str | None) -> None:
        self._broker = broker
        self._wire = wire
        self._pipeline = pipeline
        self.reader = _Reader(wire, broker.control_replicas)

    async def append(self, records: Sequence[ControlRecord], forget: Sequence[str] = ()) -> list[int]:
        everything = (*records, *map(Tombstone, forget))
        return await self.reader.ask("append", lambda: [self.write(record) for record in everything])

    def write(self, record: ControlRecord | Tombstone) -> int:
        """At the broker: one record; its offset."""
        return self._broker.append(record)

    async def read_to_end(self) -> list[Logged]:
        return self._between(*await self.reader.read(self._ends, 0, False))

    async def read_through(self, offset: int) -> list[Logged]:
        return self._between(*await self.reader.read(self._ends, offset + 1, False))

    async def tail(self) -> AsyncIterator[list[Logged]]:
        async for passed in self.reader.follow(self._ends):
            if found := self._between(*passed):
                yield found

    async def close(self) -> None:
        """Nothing is open."""

    def _ends(self, route: Route) -> tuple[int, int]:
        end = self._broker.control_replicas.high_watermark(route, len(self._broker.control))
        return end, end

    def _between(self, begin: int, end: int) -> list[Logged]:
        found = [logged for logged in self._broker.control[begin:end] if logged is not None]
        return [logged for logged in found if self._pipeline in (None, _pipeline(logged.record))]


class BrokersStepsLog:
    """The steps log of one process, with all that an owner or an archive of it may ask."""

    def __init__(self, broker: Broker, wire: Wire) -> None:
        self._broker = broker
        self.reader = _Reader(wire, broker.steps_replicas)

    async def begin_at_checkpoint(self) -> Checkpoint | None:
        end, _ = await self.reader.ask("end", lambda: self._ends(self.reader.routes["prompt"]))
        made = [
            one.record
            for one in self._broker.steps[:end]
            if one is not None and isinstance(one.record, Checkpoint)
        ]
        if not made or made[-1].begin_offset < 0:
            return None
        self.reader.position = made[-1].begin_offset
        return made[-1]

    def begin_at_start(self) -> None:
        self.reader.position = 0

    @property
    def position(self) -> int:
        return self.reader.position

    async def read_to_end(self) -> list[LoggedStep]:
        return self._between(*await self.reader.read(self._ends, 0, False))

    async def read_settled(self, at_least: int) -> list[LoggedStep]:
        return self._between(*await self.reader.read(self._ends, at_least, True))

    def pass_over(self, offset: int) -> None:
        self.reader.position = max(self.reader.position, offset)

    async def read_range(self, from_: int, to: int) -> list[LoggedStep]:
        end, _ = await self.reader.ask("end", lambda: self._ends(self.reader.routes["prompt"]))
        return self._between(from_, min(to, end))

    async def tail(self) -> AsyncIterator[list[LoggedStep]]:
        async for passed in self.reader.follow(self._ends):
            if found := self._between(*passed):
                yield found

    async def close(self) -> None:
        """Nothing is open."""

    def _ends(self, route: Route) -> tuple[int, int]:
        high_watermark = self._broker.steps_replicas.high_watermark(route, len(self._broker.steps))
        return self._broker.stable[high_watermark], high_watermark

    def _between(self, begin: int, end: int) -> list[LoggedStep]:
        return [logged for logged in self._broker.steps[begin:end] if logged is not None]


class BrokersTransaction:
    """The owner's side of the transaction: the boundary is written by one request, the commit asked for by
    another."""

    def __init__(self, broker: Broker, wire: Wire) -> None:
        self._broker = broker
        self._wire = wire
        self._log_end = 0

    @property
    def log_end(self) -> int:
        return self._log_end

    async def init_producer(self, timeout_ms: int) -> tuple[int, int]:
        return await self._request("init", self._broker.init_producer)

    async def add_partitions(
        self, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None:
        self._check(producer_id)
        await self._request("add", lambda: self._broker.add_partitions(producer_epoch, tuple(partitions)))

    async def commit_step(
        self,
        producer_id: int,
        producer_epoch: int,
        boundary: StepBoundary,
        expected_offset: int,
        forget: Sequence[str] = (),
    ) -> NextTransaction | None:
        self._check(producer_id)
        return await self._commit(producer_epoch, boundary, expected_offset, forget)

    async def commit_checkpoint(
        self,
        producer_id: int,
        producer_epoch: int,
        checkpoint: Checkpoint | None,
        expected_offset: int,
        forget: Sequence[str],
        assignment: Assignment | None = None,
    ) -> None:
        self._check(producer_id)
        records = [each for each in (checkpoint, assignment) if each is not None]
        await self._commit(producer_epoch, records[0], expected_offset, forget, records[1:])

    async def prove_end(self, producer_id: int, producer_epoch: int) -> None:
        self._check(producer_id)
        await self._request("add", lambda: self._broker.add_partitions(producer_epoch, (STEPS,)))
        barrier = Tombstone(BARRIER_KEY)
        offset = await self._request("write", lambda: self._broker.write_last(producer_epoch, barrier))
        self._log_end = max(self._log_end, offset + 1)

    async def close(self) -> None:
        """Nothing is open."""

    async def _commit(
        self,
        epoch: int,
        record: StepRecord,
        expected_offset: int,
        forget: Sequence[str],
        more: Sequence[StepRecord] = (),
    ) -> NextTransaction | None:
        batch = [record, *more, *map(Tombstone, forget)]
        offset = await self._request("write", lambda: self._broker.write_last(epoch, *batch))
        self._log_end = max(self._log_end, offset + len(batch))
        if not lies_at_the_end(offset, expected_offset):
            raise UnseenRecordError(
                f"it came to lie at offset {offset}, but what was read ended at {expected_offset}"
            )
        try:
            producer = await self._request("commit", lambda: self._broker.end(epoch))
        except RetriableError as error:
            raise CommitUnknownError("the answer was lost") from error
        return None if producer is None else NextTransaction(producer, offset, offset + len(batch) + 1)

    def _check(self, producer_id: int) -> None:
        if producer_id != PRODUCER_ID:
            raise FencedError("it is not the transaction's producer")

    async def _request(self, what: str, do: Callable[[], _T]) -> _T:
        try:
            return await asked(self._wire, what, do)
        except Fenced as error:
            raise FencedError("the producer epoch is no longer valid") from error


def lies_at_the_end(offset: int, expected_offset: int) -> bool:
    """What the owner asks of the acknowledgement of what it wrote last, before it asks for the commit."""
    return offset == expected_offset


def _pipeline(value: ControlRecord | Tombstone) -> str:
    return pipeline_of(value.key if isinstance(value, Tombstone) else key_of(value))
