"""Which batches of a fetch a read_committed reader may see (KIP-98).

The broker lists the aborted transactions of what it returns, each by producer and first offset. As in Kafka's
own consumer, a producer's transactional batches from that offset on are hidden until its abort marker.
Markers are never shown.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from kcontrol.wire.batches.layout import HEADER_BYTES, Batch
from kcontrol.wire.batches.records import parse

AbortedTransactions = Iterable[tuple[int, int]]
"""(producer id, first offset), in any order."""

_ABORT = 0
_MARKER_BYTES = 4


class AbortedFilter:
    """Follows which producers are inside an aborted transaction. Told of all batches of a fetch, in order."""

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._pending = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._pending)
        self._aborting: set[int] = set()

    def admits(self, next_offset: int, producer_id: int, *, transactional: bool) -> bool:
        """Whether a batch of records, which ends before `next_offset`, may be seen."""
        self._reach(next_offset)
        return not (transactional and producer_id in self._aborting)

    def see_marker(self, next_offset: int, producer_id: int, *, aborts: bool) -> None:
        """A control batch: the producer's transaction is over."""
        self._reach(next_offset)
        if aborts:
            self._aborting.discard(producer_id)

    def _reach(self, next_offset: int) -> None:
        while self._pending and self._pending[0][0] < next_offset:
            self._aborting.add(heapq.heappop(self._pending)[1])


def visible(
    data: memoryview, batches: Iterable[Batch], aborted: AbortedTransactions, where: str
) -> Iterator[Batch]:
    """Those of `batches` that hold records for a read_committed reader. Raises DamagedRecordError."""
    hidden = AbortedFilter(aborted)
    for batch in batches:
        if batch.control:
            hidden.see_marker(batch.next_offset, batch.producer_id, aborts=_is_abort(data, batch, where))
        elif (
            hidden.admits(batch.next_offset, batch.producer_id, transactional=batch.transactional)
            and batch.records
        ):
            yield batch


def _is_abort(data: memoryview, batch: Batch, where: str) -> bool:
    """A marker's key is a 16-bit version and the 16-bit type. Compaction may leave a control batch without
    its record: then the transaction that it ended has no records either."""
    record = next(parse(data[batch.start + HEADER_BYTES : batch.end], batch, where), None)
    key = record.key if record else None
    return key is not None and len(key) >= _MARKER_BYTES and int.from_bytes(key[2:_MARKER_BYTES]) == _ABORT
