"""Batches as brokers keep them: made with aiokafka's builder, and changed where only a broker
could (offsets, times, markers).

aiokafka's parser says what is in them: the reference for everything that the codecs read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import google_crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import strategies as st

_ATTRIBUTES_AT, _CRC_AT, _MAX_TIMESTAMP_AT, _LAST_DELTA_AT = 21, 17, 35, 23
_UNBOUNDED = 1 << 30
APPEND_TIME, CONTROL = 0x08, 0x20

Headers = tuple[tuple[str, bytes | None], ...]
Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""offset, timestamp in ms, key, value, headers."""


@dataclass(frozen=True)
class MadeRecord:
    delta: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


@dataclass(frozen=True)
class MadeBatch:
    """`skipped`: offsets at the batch's end whose records compaction has removed."""

    records: Sequence[MadeRecord]
    compression: int = 0
    transactional: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    append_time_ms: int | None = None
    control: bool = False
    skipped: int = 0

    def encode(self, base_offset: int) -> bytes:
        builder = DefaultRecordBatchBuilder(
            2, self.compression, int(self.transactional), self.producer_id, self.producer_epoch, 0, _UNBOUNDED
        )
        for record in self.records:
            builder.append(record.delta, record.timestamp_ms, record.key, record.value, list(record.headers))
        data = bytearray(builder.build())
        struct.pack_into(">q", data, 0, base_offset)
        struct.pack_into(">i", data, _LAST_DELTA_AT, self.offsets - 1)
        if self.append_time_ms is not None:
            data[_ATTRIBUTES_AT + 1] |= APPEND_TIME
            struct.pack_into(">q", data, _MAX_TIMESTAMP_AT, self.append_time_ms)
        if self.control:
            data[_ATTRIBUTES_AT + 1] |= CONTROL
        return resealed(data)

    @property
    def offsets(self) -> int:
        return (self.records[-1].delta + 1 if self.records else 1) + self.skipped


@dataclass(frozen=True)
class MadeLog:
    """Batches one after the other, `gap` offsets that compaction has emptied before each."""

    batches: Sequence[MadeBatch]
    gaps: Sequence[int] = field(default_factory=tuple)
    start: int = 0

    def encode(self) -> bytes:
        return b"".join(self.encoded())

    def encoded(self) -> list[bytes]:
        out, offset = [], self.start
        for index, batch in enumerate(self.batches):
            offset += self.gaps[index] if index < len(self.gaps) else 0
            out.append(batch.encode(offset))
            offset += batch.offsets
        return out


def resealed(data: bytes | bytearray) -> bytes:
    """One batch with its checksum made right."""
    out = bytearray(data)
    struct.pack_into(">I", out, _CRC_AT, google_crc32c.value(bytes(out[_ATTRIBUTES_AT:])))
    return bytes(out)


def marker(producer_id: int, commit: bool) -> MadeBatch:
    """The control batch that ends a producer's transaction."""
    record = MadeRecord(0, 0, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return MadeBatch([record], transactional=True, producer_id=producer_id, producer_epoch=0, control=True)


def parsed(data: bytes) -> list[Row]:
    """All records, as aiokafka reads them."""
    rows: list[Row] = []
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        for record in batch:
            # aiokafka shows a timestamp of -1 as none.
            timestamp_ms = -1 if record.timestamp is None else record.timestamp
            rows.append((record.offset, timestamp_ms, record.key, record.value, tuple(record.headers)))
    return rows


FIELDS = st.one_of(st.none(), st.binary(max_size=40), st.just(b""), st.integers(100, 300).map(bytes))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
HEADERS = st.lists(st.tuples(NAMES, FIELDS), max_size=4).map(tuple)
TIMES = st.one_of(st.integers(-1, 2_000_000_000_000), st.integers(-(2**53), 2**53))


@st.composite
def made_batches(draw: st.DrawFn) -> MadeBatch:
    deltas = draw(st.lists(st.integers(0, 300), min_size=1, max_size=12, unique=True).map(sorted))
    records = [MadeRecord(delta, draw(TIMES), draw(FIELDS), draw(FIELDS), draw(HEADERS)) for delta in deltas]
    return MadeBatch(
        records,
        compression=draw(st.integers(0, 4)),
        append_time_ms=draw(st.one_of(st.none(), st.integers(0, 2**41))),
        skipped=draw(st.integers(0, 3)),
    )


LOGS = st.builds(
    MadeLog,
    st.lists(made_batches(), min_size=1, max_size=5),
    st.lists(st.integers(0, 1000), max_size=5),
    st.one_of(st.integers(0, 1000), st.integers(2**40, 2**41)),
)
