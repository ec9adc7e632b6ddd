"""The bytes of one fetch as rows: what is whole in them, what of it a reader may see, and where to read
on."""

from __future__ import annotations

from collections.abc import Iterator

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches.codec import Codec, Decoded, Payload, Run
from kcontrol.wire.batches.compression import UnpackError, unpack
from kcontrol.wire.batches.layout import HEADER_BYTES, SMALLEST_RECORD_BYTES, Batch, scan
from kcontrol.wire.batches.visible import AbortedTransactions, visible
from kcontrol.wire.digest import DigestKind

RUN_BYTES = 32 << 20
"""Rows of about so many bytes become one Arrow batch; a single larger Kafka batch still comes in one."""
_LARGEST_RUN_BYTES = 2**31 - 1
"""Arrow's binary columns have 32-bit offsets."""


class Fetched:
    """The record batches that one fetch brought; their headers and checksums are looked at at once.

    where: topic and partition, for messages. Raises DamagedRecordError.
    """

    def __init__(self, data: bytes | memoryview, where: str) -> None:
        self._data = memoryview(data)
        self._where = where
        self.batches: list[Batch] = list(scan(self._data, where))

    def next_offset(self, position: int) -> int:
        """Where to read on; `position` itself if there was not one whole batch."""
        return max(position, self.batches[-1].next_offset) if self.batches else position

    def visible(self, aborted: AbortedTransactions) -> Iterator[Batch]:
        """The batches that hold records which a read_committed reader may see. aborted: as
        the fetch's response lists them."""
        return visible(self._data, self.batches, aborted, self._where)

    def decode(
        self,
        codec: Codec,
        aborted: AbortedTransactions,
        first: int,
        to: int,
        kind: DigestKind = DigestKind.INPUT,
        *,
        headers: bool = False,
        run_bytes: int = RUN_BYTES,
    ) -> Iterator[Decoded]:
        """The visible records with offsets [first, to), in offset order, by `runs`; it may be none of one.

        aborted: as the fetch's response lists them. Raises DamagedRecordError.
        """
        for run in self.runs(aborted, first, to, run_bytes):
            yield codec.decode([run], kind, headers=headers)

    def runs(
        self, aborted: AbortedTransactions, first: int, to: int, run_bytes: int = RUN_BYTES
    ) -> Iterator[Run]:
        """The batches with such records, in runs of about `run_bytes`. Raises DamagedRecordError."""
        run: list[Payload] = []
        size = 0
        for batch in visible(self._data, self._before(to), aborted, self._where):
            if batch.next_offset <= first:
                continue
            payload = self._payload(batch)
            if run and size + len(payload.records) > run_bytes:
                yield Run(run, first, to, self._where)
                run, size = [], 0
            run.append(payload)
            size += len(payload.records)
        if run:
            yield Run(run, first, to, self._where)

    def _before(self, to: int) -> Iterator[Batch]:
        """Also those before the first wanted offset: they say which transactions were aborted."""
        return (batch for batch in self.batches if batch.base_offset < to)

    def _payload(self, batch: Batch) -> Payload:
        packed = self._data[batch.start + HEADER_BYTES : batch.end]
        try:
            records = memoryview(unpack(batch.compression, bytes(packed))) if batch.compression else packed
        except UnpackError as error:
            raise DamagedRecordError(
                f"{self._where}: the batch at offset {batch.base_offset} is damaged: {error}."
            ) from error
        if not batch.records * SMALLEST_RECORD_BYTES <= len(records) <= _LARGEST_RUN_BYTES:
            raise DamagedRecordError(
                f"{self._where}: the batch at offset {batch.base_offset} says that it has {batch.records} "
                f"records in {len(records)} bytes; a batch holds at most {_LARGEST_RUN_BYTES} bytes."
            )
        return Payload(batch, records)
