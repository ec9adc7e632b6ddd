"""Exact ranges of offsets as Arrow batches, as Spark tasks read them: committed records only, and never one more or less.

A consumer would choose its own positions, and hide where it was sent when they are gone. Here a read begins at `from_`, ends
when its position reaches `to`, and says what it read: how many records, and their digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from kcontrol.adapters.kafka.fetch_range import Chunk, RangeFetcher, RangeId, parse_topic_id
from kcontrol.adapters.kafka.raw_client import client_for
from kcontrol.errors import RetriableError
from kcontrol.runtime.settings import ClusterSettings
from kcontrol.wire.batches import HEADERS_TYPE, Fetched, default_codec
from kcontrol.wire.digest import EMPTY, Digest

_LARGEST_FETCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """fetch_max_bytes: of one fetch; about eight times as much memory is in use. run_bytes: of one Arrow batch, about.
    deadline_ms: a fetch that has brought nothing by then has failed."""

    fetch_max_bytes: int = 8 << 20
    run_bytes: int = 32 << 20
    deadline_ms: int = 30_000


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


class RangeRead(Iterator[pa.RecordBatch]):
    """The batches of one range, to be iterated once. `digest` counts what has been returned so far: all of it at the end."""

    def __init__(self, batches: Iterator[tuple[pa.RecordBatch, Digest]]) -> None:
        self._batches = batches
        self.digest: Digest = EMPTY

    @property
    def records(self) -> int:
        return self.digest.records

    def __next__(self) -> pa.RecordBatch:
        rows, digest = next(self._batches)
        self.digest += digest
        return rows


class RangeReader:
    """Reads ranges from one cluster; connections belong to the process and are kept."""

    def __init__(self, settings: ClusterSettings, limits: ReadLimits | None = None) -> None:
        self._client = client_for(settings)
        self._limits = limits or ReadLimits()

    def read(
        self, input_name: str, topic: str, topic_id: str, partition: int, from_: int, to: int, *, headers: bool = False
    ) -> RangeRead:
        """Committed records with offsets [from_, to), in order, with the columns of `range_schema`; no batch is empty.

        topic_id: as Kafka's tools show it. The iteration raises InputGoneError: these offsets, or the topic they were in, are
        no longer there. DamagedRecordError: a batch is not what its format says. TopicError: not allowed. RetriableError:
        Kafka did not deliver in time.
        """
        return RangeRead(
            self._batches(RangeId(input_name, topic, parse_topic_id(topic_id), partition, from_, to), headers=headers)
        )

    def _batches(self, wanted: RangeId, *, headers: bool) -> Iterator[tuple[pa.RecordBatch, Digest]]:
        codec, schema = default_codec(), range_schema(headers=headers)
        position, max_bytes = wanted.from_, self._limits.fetch_max_bytes
        pending = self._start(wanted, position, max_bytes) if position < wanted.to else None
        try:
            while pending is not None:
                chunk = pending.result()
                fetched = Fetched(chunk.records, wanted.where)
                position = fetched.next_offset(position) if chunk.records else wanted.to
                if chunk.records and not fetched.batches:
                    max_bytes = _larger(max_bytes, wanted)
                # The next chunk comes while this one is decoded.
                pending = self._start(wanted, position, max_bytes) if position < wanted.to else None
                runs = fetched.decode(
                    codec, chunk.aborted, chunk.position, wanted.to, headers=headers, run_bytes=self._limits.run_bytes
                )
                for run in runs:
                    if run.rows.num_rows:
                        yield _with_place(run.rows, wanted, schema), run.digest
        finally:
            if pending is not None:
                pending.cancel()

    def _start(self, wanted: RangeId, position: int, max_bytes: int) -> Future[Chunk]:
        fetcher = RangeFetcher(self._client, wanted, max_bytes, self._limits.deadline_ms)
        return self._client.start(fetcher.fetch(position))


def _larger(max_bytes: int, wanted: RangeId) -> int:
    """Brokers return a first batch whole, whatever its size (KIP-74); this is for one that does not."""
    if max_bytes >= _LARGEST_FETCH_BYTES:
        raise RetriableError(f"{wanted.where}: a fetch of {max_bytes} bytes brought no whole batch")
    return min(2 * max_bytes, _LARGEST_FETCH_BYTES)


def _with_place(rows: pa.RecordBatch, wanted: RangeId, schema: pa.Schema) -> pa.RecordBatch:
    topic = pa.repeat(pa.scalar(wanted.topic, pa.string()), rows.num_rows)
    partition = pa.repeat(pa.scalar(wanted.partition, pa.int32()), rows.num_rows)
    key, value, *others = rows.columns
    return pa.RecordBatch.from_arrays([key, value, topic, partition, *others], schema=schema)
