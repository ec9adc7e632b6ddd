"""Exact ranges of offsets as Arrow batches, as Spark tasks read them: committed records
only, and never one more or less.

A consumer would choose its own positions, and hide where it was sent when they are gone. Here a read begins
at `from_`, ends when its position reaches `to`, and says what it read: how many records, and their digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.read.fetch_ahead import FetchAhead
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeId, parse_topic_id
from kcontrol.adapters.kafka.read.fetching import ReadLimits, fetches
from kcontrol.adapters.kafka.read.kept_chunks import kept_chunks
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import HEADERS_TYPE, Ints, Run, default_codec
from kcontrol.wire.digest import DigestKind
from kcontrol.wire.range_read import RangeRead, RowsOfRanges


def range_schema(*, headers: bool) -> pa.Schema:
    """The columns of Spark's own Kafka source, `headers` last."""
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    return pa.schema([*fields, pa.field("headers", HEADERS_TYPE)] if headers else fields)


class RangeReader:
    """Reads ranges from one cluster; connections belong to the process and are kept."""

    def __init__(self, settings: ClusterSettings, limits: ReadLimits | None = None) -> None:
        self._client = client_for(settings)
        self._limits = limits or ReadLimits()

    def read(
        self,
        input_name: str,
        topic: str,
        topic_id: str,
        partition: int,
        from_: int,
        to: int,
        *,
        headers: bool = False,
        kind: DigestKind = DigestKind.INPUT,
    ) -> RangeRead:
        """Committed records with offsets [from_, to), in order, with the columns of
        `range_schema`; no batch is empty.

        topic_id: as Kafka's tools show it. kind: what their digest covers. The iteration raises
        InputGoneError: these offsets, or the topic they were in, are no longer there. DamagedRecordError: a
        batch is not what its format says. AccessError: not allowed. RetriableError: Kafka did not deliver in
        time.
        """
        return self.read_each(
            input_name, topic, topic_id, [(partition, from_, to)], headers=headers, kind=kind
        )

    def read_each(
        self,
        input_name: str,
        topic: str,
        topic_id: str,
        ranges: Sequence[tuple[int, int, int]],
        *,
        headers: bool = False,
        kind: DigestKind = DigestKind.INPUT,
    ) -> RangeRead:
        """As `read`, of several (partition, from, to) of one topic in this order; the
        first fetches of many go together."""
        id_ = parse_topic_id(topic_id)
        wanted = [RangeId(input_name, topic, id_, partition, from_, to) for partition, from_, to in ranges]
        return RangeRead(self._each(wanted, kind, headers=headers), len(wanted))

    def _each(self, ranges: Sequence[RangeId], kind: DigestKind, *, headers: bool) -> Iterator[RowsOfRanges]:
        read = [each for each in ranges if each.from_ < each.to]
        kept = {each: chunk for each in read if (chunk := kept_chunks(self._client).take(each)) is not None}
        coming = [each for each in read if each not in kept]
        ahead = FetchAhead(self._client, coming, self._limits.fetch_max_bytes)
        together = _Together(kind, self._limits.together_bytes, headers=headers)
        try:
            for index, wanted in enumerate(ranges):
                if wanted.from_ < wanted.to:
                    for run in self._runs(wanted, ahead, kept.pop(wanted, None)):
                        yield from together.add(index, wanted, run)
            yield from together.end()
        finally:
            ahead.close()

    def _runs(self, wanted: RangeId, ahead: FetchAhead, first: Chunk | None) -> Iterator[Run]:
        with closing(fetches(self._client, wanted, ahead, self._limits, first)) as found:
            for chunk, fetched in found:
                yield from fetched.runs(chunk.aborted, chunk.position, wanted.to, self._limits.run_bytes)


class _Together:
    """Decodes runs: small ones of several ranges at once, for each call has a price that a few records are not worth."""

    def __init__(self, kind: DigestKind, enough_bytes: int, *, headers: bool) -> None:
        self._kind, self._enough_bytes, self._headers = kind, enough_bytes, headers
        self._schema = range_schema(headers=headers)
        self._runs: list[tuple[int, RangeId, Run]] = []
        self._bytes = 0

    def add(self, index: int, wanted: RangeId, run: Run) -> Iterator[RowsOfRanges]:
        """What is enough to be decoded, now that there is this run of the range of this index, too."""
        size = run.size_bytes
        if self._runs and self._bytes + size > self._enough_bytes:
            yield from self.end()
        self._runs.append((index, wanted, run))
        self._bytes += size
        if self._bytes >= self._enough_bytes:
            yield from self.end()

    def end(self) -> Iterator[RowsOfRanges]:
        """All that is left; no rows if that is none."""
        added, self._runs, self._bytes = self._runs, [], 0
        if not added:
            return
        decoded = default_codec().decode([run for _, _, run in added], self._kind, headers=self._headers)
        if decoded.rows.num_rows:
            counts = [digest.records for digest in decoded.digests]
            partitions = np.repeat(np.array([wanted.partition for _, wanted, _ in added], np.int32), counts)
            indexes = (index for index, _, _ in added)
            rows = _with_place(decoded.rows, added[0][1].topic, partitions, self._schema)
            yield rows, list(zip(indexes, decoded.digests, strict=True))


def _with_place(rows: pa.RecordBatch, topic: str, partitions: Ints, schema: pa.Schema) -> pa.RecordBatch:
    topics = pa.repeat(pa.scalar(topic, pa.string()), rows.num_rows)
    key, value, *others = rows.columns
    return pa.RecordBatch.from_arrays([key, value, topics, pa.array(partitions), *others], schema=schema)
