"""The RegionLog port in memory: one topic, its fencing, and transactions that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kcontrol.core.regions.log_view import RegionLogged, RegionTombstone
from kcontrol.core.regions.records import RegionRecord
from kcontrol.errors import CommitUnknownError, FencedError, UnseenRecordError
from tests.fakes.memory_kafka import Loss


@dataclass
class MemoryRegionTopic:
    """The log of one region. epoch: of whoever has taken it last. loss: what becomes of the next commit."""

    records: list[RegionLogged] = field(default_factory=list)
    epoch: int = 0
    loss: Loss | None = None

    def take(self) -> int:
        self.epoch += 1
        return self.epoch

    def commit(self, epoch: int, position: int, records: Sequence[RegionLogged]) -> None:
        """Raises as the port's `write` does."""
        loss, self.loss = self.loss, None
        if epoch != self.epoch:
            raise FencedError(f"epoch {epoch} is older than {self.epoch}")
        if position != len(self.records):
            raise UnseenRecordError(f"what was read ended at {position}, and the log at {len(self.records)}")
        if loss is not Loss.REQUEST:
            self.records += records
        if loss is not None:
            raise CommitUnknownError("the answer to the commit was lost")


class MemoryRegionLog:
    """One process's view of it."""

    def __init__(self, topic: MemoryRegionTopic) -> None:
        self._topic, self.position, self._epoch = topic, 0, -1

    def know_only(self, position: int) -> None:
        """As if the last answer had never come: it was read up to here, and is not ours for all we know."""
        self.position, self._epoch = position, -1

    async def read(self) -> list[RegionLogged]:
        found = self._topic.records[self.position :]
        self.position += len(found)
        return found

    async def take(self) -> list[RegionLogged]:
        self._epoch = -1
        epoch = self._topic.take()
        found = await self.read()
        self._epoch = epoch
        return found

    async def write(self, records: Sequence[RegionRecord], forget: Sequence[str] = ()) -> None:
        epoch, self._epoch = self._epoch, -1
        written = [*records, *map(RegionTombstone, forget)]
        self._topic.commit(epoch, self.position, written)
        self.position += len(written)
        self._epoch = epoch

    async def close(self) -> None:
        """Nothing is open."""
