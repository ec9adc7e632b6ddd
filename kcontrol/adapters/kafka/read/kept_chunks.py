"""The chunk in which a range ended, kept for the range that goes on there.

A batch comes whole, whatever is wanted of it. Small steps out of a backlog take a few records each of a batch that has
thousands, and would have it sent anew for every step. What was fetched as committed stays what it is: its offsets are below
the last stable one, and a topic that was recreated has another id.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeId

MOST_BYTES = 16 << 20
"""Of all that one process keeps for one cluster; those that were used longest ago go first."""
MOST_CHUNK_BYTES = 4 << 20
"""Of one: who takes more of a partition at a time has little of it sent twice."""


@dataclass(frozen=True, slots=True)
class _KeptChunk:
    chunk: Chunk
    end: int


class KeptChunks:
    """At most one for each partition. Not for several threads at once: a worker has one task at a time."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_chunk_bytes: int = MOST_CHUNK_BYTES) -> None:
        self._most_bytes, self._most_chunk_bytes = most_bytes, most_chunk_bytes
        self._kept: OrderedDict[tuple[uuid.UUID, int], _KeptChunk] = OrderedDict()
        self._bytes = 0

    def keep(self, wanted: RangeId, chunk: Chunk, end: int) -> None:
        """A chunk that holds what there is from its position to `end`, beyond the end of the range."""
        fits = wanted.isolation == READ_COMMITTED and len(chunk.records) <= self._most_chunk_bytes
        if not fits or end <= wanted.to:
            return
        place = wanted.topic_id, wanted.partition
        if place in self._kept:
            self._bytes -= len(self._kept.pop(place).chunk.records)
        self._kept[place] = _KeptChunk(chunk, end)
        self._bytes += len(chunk.records)
        while self._bytes > self._most_bytes:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone.chunk.records)

    def take(self, wanted: RangeId) -> Chunk | None:
        """The first chunk of a range, if it begins in one that is kept."""
        place = wanted.topic_id, wanted.partition
        kept = self._kept.get(place)
        if (
            wanted.isolation != READ_COMMITTED
            or kept is None
            or not kept.chunk.position <= wanted.from_ < kept.end
        ):
            return None
        self._kept.move_to_end(place)
        return Chunk(wanted.from_, kept.chunk.records, kept.chunk.aborted)


_of_clients: WeakKeyDictionary[RawClient, KeptChunks] = WeakKeyDictionary()


def kept_chunks(client: RawClient) -> KeptChunks:
    """Those of this process."""
    return _of_clients.setdefault(client, KeptChunks())
