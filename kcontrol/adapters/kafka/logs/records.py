"""Record batches of small topics to single records, with what a reader may not see left out.

For control and steps records, which are few and small, aiokafka's parser is fast enough; the data path has its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from kcontrol.errors import DamagedRecordError


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as Kafka keeps it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Visible:
    """What a fetch gives a reader: records from its position on, and where to read next."""

    records: list[RawRecord]
    next_offset: int


def visible_records(data: bytes, position: int, aborted: Iterable[tuple[int, int]], where: str) -> Visible:
    """Parse one fetch response's records.

    position: what comes before it in the first batch is left out. aborted: (producer id, first offset) of aborted
    transactions, as a read_committed response lists them; () for read_uncommitted. where: topic and partition, for messages.

    Raises DamagedRecordError: a batch is not what its checksum says.
    """
    batches = MemoryRecords(data)
    hidden = _AbortedFilter(aborted)
    records: list[RawRecord] = []
    next_offset = position
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise DamagedRecordError(f"{where}: the record batch at offset {batch.base_offset} is damaged (CRC)")
        try:
            if hidden.admits(batch):
                records.extend(_record(record) for record in batch if record.offset >= position)
        except CorruptRecordException as error:
            raise DamagedRecordError(f"{where}: the record batch at offset {batch.base_offset} is damaged: {error}") from error
        next_offset = max(next_offset, batch.next_offset)
    return Visible(records, next_offset)


class _AbortedFilter:
    """Follows which producers are inside an aborted transaction, as Kafka's own consumer does (KIP-98)."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._pending = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._pending)
        self._aborting: set[int] = set()

    def admits(self, batch: Any) -> bool:
        while self._pending and self._pending[0][0] < batch.next_offset:
            self._aborting.add(heapq.heappop(self._pending)[1])
        if batch.is_control_batch:
            # Compaction may leave a control batch without its record.
            marker = next(iter(batch), None)
            if marker is not None and ControlRecord.parse(marker.key).type_ == ABORT_MARKER.type_:
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)


def _record(record: Any) -> RawRecord:
    headers: Sequence[tuple[str, bytes | None]] = record.headers
    return RawRecord(record.offset, record.timestamp, record.key, record.value, tuple(headers))
