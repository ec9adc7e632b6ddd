"""Exact ranges of offsets as Arrow batches, as Spark tasks read them: committed records
only, and never one more or less.

A consumer would choose its own positions, and hide where it was sent when they are gone. Here a read begins
at `from_`, ends when its position reaches `to`, and says what it read: how many records, and their digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.read.fetch_ahead import FetchAhead
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeId, parse_topic_id
from kcontrol.adapters.kafka.read.fetching import ReadLimits, fetches
from kcontrol.adapters.kafka.read.kept_chunks import kept_chunks
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import HEADERS_TYPE, default_codec
from kcontrol.wire.digest import Digest, DigestKind
from kcontrol.wire.range_read import RangeRead


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

    def _each(
        self, ranges: Sequence[RangeId], kind: DigestKind, *, headers: bool
    ) -> Iterator[tuple[int, pa.RecordBatch, Digest]]:
        read = [each for each in ranges if each.from_ < each.to]
        kept = {each: chunk for each in read if (chunk := kept_chunks(self._client).take(each)) is not None}
        coming = [each for each in read if each not in kept]
        ahead = FetchAhead(self._client, coming, self._limits.fetch_max_bytes)
        try:
            for index, wanted in enumerate(ranges):
                if wanted.from_ < wanted.to:
                    found = self._batches(wanted, ahead, kept.pop(wanted, None), kind, headers=headers)
                    for rows, digest in found:
                        yield index, rows, digest
        finally:
            ahead.close()

    def _batches(
        self, wanted: RangeId, ahead: FetchAhead, first: Chunk | None, kind: DigestKind, *, headers: bool
    ) -> Iterator[tuple[pa.RecordBatch, Digest]]:
        codec, schema = default_codec(), range_schema(headers=headers)
        with closing(fetches(self._client, wanted, ahead, self._limits, first)) as found:
            for chunk, fetched in found:
                runs = fetched.decode(
                    codec,
                    chunk.aborted,
                    chunk.position,
                    wanted.to,
                    kind,
                    headers=headers,
                    run_bytes=self._limits.run_bytes,
                )
                for run in runs:
                    if run.rows.num_rows:
                        yield _with_place(run.rows, wanted, schema), run.digest


def _with_place(rows: pa.RecordBatch, wanted: RangeId, schema: pa.Schema) -> pa.RecordBatch:
    topic = pa.repeat(pa.scalar(wanted.topic, pa.string()), rows.num_rows)
    partition = pa.repeat(pa.scalar(wanted.partition, pa.int32()), rows.num_rows)
    key, value, *others = rows.columns
    return pa.RecordBatch.from_arrays([key, value, topic, partition, *others], schema=schema)
