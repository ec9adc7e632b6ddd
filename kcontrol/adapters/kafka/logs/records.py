"""Record batches of small topics to single records, with what a reader may not see left out.

For control and steps records, which are few and small, aiokafka's parser is fast enough; the data path has
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches.visible import AbortedFilter


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

    position: what comes before it in the first batch is left out. aborted: (producer id, first offset) of
    aborted transactions, as a read_committed response lists them; () for read_uncommitted. where: topic and
    partition, for messages.

    Raises DamagedRecordError: a batch is not what its checksum says.
    """
    batches = MemoryRecords(data)
    hidden = AbortedFilter(aborted)
    records: list[RawRecord] = []
    next_offset = position
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise DamagedRecordError(
                f"{where}: the record batch at offset {batch.base_offset} is damaged (CRC)"
            )
        try:
            if _admits(hidden, batch):
                records.extend(_record(record) for record in batch if record.offset >= position)
        except CorruptRecordException as error:
            raise DamagedRecordError(
                f"{where}: the record batch at offset {batch.base_offset} is damaged: {error}"
            ) from error
        next_offset = max(next_offset, batch.next_offset)
    return Visible(records, next_offset)


def _admits(hidden: AbortedFilter, batch: Any) -> bool:
    if not batch.is_control_batch:
        return hidden.admits(batch.next_offset, batch.producer_id, transactional=batch.is_transactional)
    # Compaction may leave a control batch without its record.
    marker = next(iter(batch), None)
    aborts = marker is not None and ControlRecord.parse(marker.key).type_ == ABORT_MARKER.type_
    hidden.see_marker(batch.next_offset, batch.producer_id, aborts=aborts)
    return False


def _record(record: Any) -> RawRecord:
    headers: Sequence[tuple[str, bytes | None]] = record.headers
    return RawRecord(record.offset, record.timestamp, record.key, record.value, tuple(headers))
