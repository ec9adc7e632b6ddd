"""Records of one batch, read in plain Python with every length checked: the verdict on bytes that are odd.

The compiled loop reads what usual producers write and leaves the rest to this. aiokafka's own parser is not
used here because its compiled form follows variable-length numbers beyond the end of damaged bytes; the tests
compare the two on sound ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches.layout import Batch

_LARGEST_TIMESTAMP_MS = (2**63 - 1) // 1000
"""Arrow and Spark keep microseconds."""
_VARINT_BITS = 64


@dataclass(frozen=True, slots=True)
class Record:
    """A record as Kafka keeps it. `headers` may repeat a name."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def parse(payload: bytes | memoryview, batch: Batch, where: str) -> Iterator[Record]:
    """All records of a batch. `payload`: its records, decompressed.

    A negative length means null and a header's name that is not UTF-8 gets replacement characters, as in
    Kafka's Java client. Raises DamagedRecordError.
    """
    reader = _Reader(payload)
    previous = -1
    try:
        for _ in range(batch.records):
            record, previous = reader.record(batch, previous)
            yield record
        if reader.at != len(payload):
            raise _OddError(f"{len(payload) - reader.at} bytes are left over")
    except _OddError as error:
        raise DamagedRecordError(
            f"{where}: the batch at offset {batch.base_offset} is damaged: {error}."
        ) from error


class _OddError(Exception):
    """What is wrong with the bytes."""


class _Reader:
    def __init__(self, payload: bytes | memoryview) -> None:
        self._payload = bytes(payload)
        self.at = 0

    def record(self, batch: Batch, previous: int) -> tuple[Record, int]:
        """The next record and its offset delta, which is larger than that of the one before."""
        end = self._length() + self.at
        self._take(1)
        timestamp_ms = batch.max_timestamp_ms if batch.append_time else batch.first_timestamp_ms
        time_delta = self._varint()
        if not batch.append_time:
            timestamp_ms += time_delta
        delta = self._varint()
        if not previous < delta <= batch.last_offset_delta:
            raise _OddError(
                f"offset delta {delta} follows {previous} in a batch of {batch.last_offset_delta + 1} offsets"
            )
        offset = batch.base_offset + delta
        if abs(timestamp_ms) > _LARGEST_TIMESTAMP_MS:
            raise _OddError(
                f"the record at offset {offset} has timestamp {timestamp_ms} ms, out of the range of "
                "timestamps"
            )
        key, value = self._field(), self._field()
        headers = tuple(self._header() for _ in range(self._length()))
        if self.at != end:
            raise _OddError(f"the record at offset {offset} should end at byte {end} and ends at {self.at}")
        return Record(offset, timestamp_ms, key, value, headers), delta

    def _header(self) -> tuple[str, bytes | None]:
        return self._take(self._length()).decode("utf-8", "replace"), self._field()

    def _field(self) -> bytes | None:
        size = self._varint()
        return None if size < 0 else self._take(size)

    def _length(self) -> int:
        """A size or count; each counted thing takes a byte at least."""
        length = self._varint()
        if not 0 <= length <= len(self._payload) - self.at:
            raise _OddError(f"length {length} at byte {self.at} of {len(self._payload)}")
        return length

    def _take(self, size: int) -> bytes:
        if size > len(self._payload) - self.at:
            raise _OddError(f"{size} bytes wanted at byte {self.at} of {len(self._payload)}")
        taken = self._payload[self.at : self.at + size]
        self.at += size
        return taken

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift >= _VARINT_BITS:
                raise _OddError(f"an endless number at byte {self.at}")
        number &= (1 << _VARINT_BITS) - 1
        return number >> 1 ^ -(number & 1)
