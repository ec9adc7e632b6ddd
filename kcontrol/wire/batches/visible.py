"""Which batches of a fetch a read_committed reader may see (KIP-98).

The broker lists the aborted transactions of what it returns, each by producer and first offset. As in Kafka's own consumer, a
producer's transactional batches from that offset on are hidden until its abort marker. Markers are never shown.
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


def visible(data: memoryview, batches: Iterable[Batch], aborted: AbortedTransactions, where: str) -> Iterator[Batch]:
    """Those of `batches` that hold records for a read_committed reader. Raises DamagedRecordError."""
    pending = [(first_offset, producer_id) for producer_id, first_offset in aborted]
    heapq.heapify(pending)
    aborting: set[int] = set()
    for batch in batches:
        while pending and pending[0][0] < batch.next_offset:
            aborting.add(heapq.heappop(pending)[1])
        if batch.control:
            if _is_abort(data, batch, where):
                aborting.discard(batch.producer_id)
        elif batch.records and not (batch.transactional and batch.producer_id in aborting):
            yield batch


def _is_abort(data: memoryview, batch: Batch, where: str) -> bool:
    """A marker's key is a 16-bit version and the 16-bit type. Compaction may leave a control batch without its record: then
    the transaction that it ended has no records either."""
    record = next(parse(data[batch.start + HEADER_BYTES : batch.end], batch, where), None)
    key = record.key if record else None
    return key is not None and len(key) >= _MARKER_BYTES and int.from_bytes(key[2:_MARKER_BYTES]) == _ABORT
