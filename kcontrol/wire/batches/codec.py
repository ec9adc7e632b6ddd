"""What a codec does, and which one is used: the compiled one where numba is installed, else the reference.

`KCONTROL_CODEC=reference` or `compiled` forces one. Both give the same rows, bytes and
digests; only their speed differs.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from kcontrol.errors import ConfigurationError
from kcontrol.wire.batches.columns import HEADERS_TYPE, BytesColumn, Ints, RecordColumns
from kcontrol.wire.batches.compression import Compression
from kcontrol.wire.batches.layout import UNNUMBERED, Batch, number
from kcontrol.wire.digest import EMPTY, Digest, DigestKind

CODEC_VARIABLE = "KCONTROL_CODEC"


@dataclass(frozen=True, slots=True)
class Payload:
    """One visible batch and its records, decompressed."""

    batch: Batch
    records: memoryview


@dataclass(frozen=True, slots=True)
class Run:
    """Batches of one partition, in order, and which of their records are wanted: those with offsets [first, to).

    where: topic and partition, for messages.
    """

    payloads: Sequence[Payload]
    first: int
    to: int
    where: str

    @property
    def size_bytes(self) -> int:
        return sum(len(payload.records) for payload in self.payloads)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows with the columns of `decoded_schema`, run by run, and of each run how many they are and their digest."""

    rows: pa.RecordBatch
    digests: Sequence[Digest]

    @property
    def digest(self) -> Digest:
        """Of all rows."""
        return sum(self.digests, EMPTY)


@dataclass(frozen=True, slots=True)
class Producer:
    """Whose transaction a batch belongs to."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class BatchFormat:
    """What all batches of a writer have in common.

    timestamp_ms: of every record. extra_headers: appended to each record's own, not covered by the digest.
    digest_number: the output's partition count. max_batch_bytes: a batch is no larger unless one record alone
    is. first_sequence: of the first record of the first batch; UNNUMBERED for batches that get theirs later.
    """

    producer: Producer
    timestamp_ms: int
    extra_headers: tuple[tuple[str, bytes], ...]
    compression: Compression
    max_batch_bytes: int
    digest_kind: DigestKind
    digest_number: int
    first_sequence: int = 0


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A batch as it goes to Kafka. largest_record_bytes: of its records, uncompressed."""

    data: bytes | bytearray
    records: int
    base_sequence: int
    largest_record_bytes: int

    def numbered(self, sequence: int) -> SealedBatch:
        """The batch with this number, once and for all; its bytes are not copied."""
        if self.base_sequence != UNNUMBERED or not isinstance(self.data, bytearray):
            raise ValueError(f"the batch has the sequence number {self.base_sequence} already")
        number(self.data, sequence)
        return replace(self, base_sequence=sequence)


class OpenBatch(Protocol):
    """The batch of one partition that records are being added to, and the digest of all that ever were."""

    @property
    def records(self) -> int:
        """In the open batch."""
        ...

    @property
    def digest(self) -> Digest: ...

    def append(self, columns: RecordColumns, order: Ints, index: int, stop: int) -> int:
        """Add rows `order[index:stop]` until the batch is full; returns the index of the first row that was
        not added."""
        ...

    def seal(self) -> SealedBatch:
        """End the batch, which must not be empty, and begin the next."""
        ...

    def discard(self) -> None:
        """Forget the open batch's bytes, for those who only want the digest; its records stay in that."""
        ...


class Codec(Protocol):
    """Record batches to Arrow and back."""

    @property
    def name(self) -> str: ...

    def decode(self, runs: Sequence[Run], kind: DigestKind, *, headers: bool) -> Decoded:
        """The wanted records of runs, one at least, one after the other. Raises DamagedRecordError."""
        ...

    def open_batch(self, batch_format: BatchFormat) -> OpenBatch: ...

    def partition_of(self, keys: BytesColumn, rows: int, partitions: int) -> Ints:
        """Kafka's murmur2 partition of each key, -1 for null."""
        ...

    def warm(self) -> None:
        """Load and compile all that later calls need."""
        ...


@functools.cache
def default_codec() -> Codec:
    """The codec of this process."""
    return codec_named(default_codec_name())


def default_codec_name() -> str:
    """'compiled' or 'reference', without loading numba, which takes a second. Raises ConfigurationError."""
    wanted = os.environ.get(CODEC_VARIABLE, "")
    if wanted not in ("", "compiled", "reference"):
        raise ConfigurationError(f"{CODEC_VARIABLE}={wanted!r}: it must be 'compiled', 'reference' or unset.")
    installed = importlib.util.find_spec("numba") is not None
    if wanted == "compiled" and not installed:
        raise ConfigurationError(
            f"{CODEC_VARIABLE}=compiled needs the package numba, which is not installed."
        )
    return wanted or ("compiled" if installed else "reference")


def codec_named(name: str) -> Codec:
    """'compiled' or 'reference'; importing the first loads numba."""
    if name == "compiled":
        from kcontrol.wire.batches.compiled_codec import CompiledCodec

        return CompiledCodec()
    from kcontrol.wire.batches.reference_codec import ReferenceCodec

    return ReferenceCodec()


def decoded_schema(*, headers: bool) -> pa.Schema:
    """Columns of decoded rows, without those that are the same for all rows of a partition."""
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    return pa.schema([*fields, pa.field("headers", HEADERS_TYPE)] if headers else fields)


def sealed_bytes(out: bytearray | memoryview, sequence: int) -> bytes | bytearray:
    """A copy of a sealed batch, which can still be changed if it has no number yet."""
    return bytearray(out) if sequence == UNNUMBERED else bytes(out)
