"""The header of a record batch v2 (KIP-98): the part of Kafka's format that is the same for every codec.

A batch is 12 bytes (base offset, length of the rest), 49 bytes more of header, and then its records,
compressed or not. The checksum covers everything from the attributes on; what lies before them a broker may
change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c
import numpy as np
import numpy.typing as npt

from kcontrol.errors import DamagedRecordError

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
ATTRIBUTES_AT = 21
"""Where the bytes that the checksum covers begin."""
_LENGTH_COVERS_FROM = 12
_LENGTHS = struct.Struct(">qiib")
_CHECKSUM_AT = 17
_SEQUENCE_AT = 53
_MAGIC = 2

COMPRESSION = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

UNNUMBERED = -1
"""The sequence number of a batch that is given one later (`number`); it has no checksum until then."""

SMALLEST_RECORD_BYTES = 7
"""Length, attributes, two deltas, null key, null value, no headers."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch and where it lies in a fetch's bytes: its header from `start`, its records up to `end`."""

    start: int
    end: int
    base_offset: int
    attributes: int
    last_offset_delta: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION

    @property
    def append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)


def first_batch_bytes(data: bytes | memoryview) -> int | None:
    """How long the first batch is by its header, whether or not it is there to its end; None if not even that is there.
    Nothing is checked."""
    if len(data) < _LENGTHS.size:
        return None
    _, length, _, _ = _LENGTHS.unpack_from(data)
    return _LENGTH_COVERS_FROM + int(length)


def scan(data: bytes | memoryview, where: str) -> Iterator[Batch]:
    """The whole batches in a fetch's bytes, in order; the last one, if the fetch size cut it off, is left
    out.

    where: topic and partition, for messages. Raises DamagedRecordError: a header or checksum is wrong.
    """
    view = memoryview(data)
    array = np.frombuffer(view, np.uint8)
    at = 0
    while at + _LENGTHS.size <= len(view):
        base_offset, length, _, magic = _LENGTHS.unpack_from(view, at)
        if magic != _MAGIC:
            raise DamagedRecordError(
                f"{where}: the batch at offset {base_offset} has message format {magic}, not 2 (of Kafka "
                "0.11 and newer); copy the topic's records to a new topic."
            )
        end = at + _LENGTH_COVERS_FROM + length
        if end - at < HEADER_BYTES:
            raise _damaged(where, base_offset, f"its length is {length}")
        if end > len(view):
            return
        yield _checked(view, array, at, end, where)
        at = end


def _checked(view: memoryview, array: npt.NDArray[np.uint8], start: int, end: int, where: str) -> Batch:
    base, _, _, _, crc, attributes, last, first_ms, max_ms, producer, epoch, sequence, records = (
        HEADER.unpack_from(view, start)
    )
    if _checksum(array[start + ATTRIBUTES_AT : end]) != crc:
        raise _damaged(where, base, "its checksum does not match")
    if base < 0 or last < 0 or base > 2**63 - 1 - 2**31 or records < 0 or records > last + 1:
        raise _damaged(where, base, f"it says that it has {records} records in {last + 1} offsets")
    return Batch(start, end, base, attributes, last, first_ms, max_ms, producer, epoch, sequence, records)


def seal(
    out: bytearray | memoryview,
    size: int,
    records: int,
    attributes: int,
    timestamp_ms: int,
    producer: tuple[int, int, int],
) -> None:
    """Write the header of the batch whose records are in `out[61:size]` already.

    timestamp_ms: of every record. producer: id, epoch and sequence number of the first record.
    """
    length = size - _LENGTH_COVERS_FROM
    fields = (attributes, records - 1, timestamp_ms, timestamp_ms, *producer, records)
    HEADER.pack_into(out, 0, 0, length, -1, _MAGIC, 0, *fields)
    if producer[2] != UNNUMBERED:
        _seal_checksum(out, size)


def number(out: bytearray, sequence: int) -> None:
    """Give a batch that was sealed as UNNUMBERED the sequence number of its first record."""
    struct.pack_into(">i", out, _SEQUENCE_AT, sequence)
    _seal_checksum(out, len(out))


def next_sequence(sequence: int, records: int) -> int:
    """The sequence number after a batch: 31 bits, from 0 again after the last, as Kafka's own producer
    counts; after an unnumbered one there is none."""
    return UNNUMBERED if sequence == UNNUMBERED else (sequence + records) & 0x7FFFFFFF


def _seal_checksum(out: bytearray | memoryview, size: int) -> None:
    crc = _checksum(np.frombuffer(out, np.uint8)[ATTRIBUTES_AT:size])
    struct.pack_into(">I", out, _CHECKSUM_AT, crc)


def _checksum(data: npt.NDArray[np.uint8]) -> int:
    # The library takes no memoryview, and bytes would be a copy.
    checksum: int = google_crc32c.value(data)
    return checksum


def _damaged(where: str, base_offset: int, why: str) -> DamagedRecordError:
    return DamagedRecordError(f"{where}: the batch at offset {base_offset} is damaged: {why}.")
