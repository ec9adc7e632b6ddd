"""Reads the splits of a source task: exact ranges, straight into Arrow, with what was
found counted for the boundary."""

from __future__ import annotations

import functools
from collections.abc import Collection, Generator, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from kcontrol.adapters.files.file_lines import FileLines
from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.generated.rows import read_rows, rows_schema
from kcontrol.adapters.kafka.read.ranges import RangeReader, range_schema
from kcontrol.adapters.spark.channel.attempt import Counted
from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.messages import AskSettings
from kcontrol.adapters.spark.channel.placement_check import PlacementCheck
from kcontrol.adapters.spark.values.json_columns import JsonColumns
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.digest import INPUT_DIGEST_VERSION, input_kind
from kcontrol.wire.range_read import RangeRead

_ENOUGH_ROWS = 4_096
_ENOUGH_BYTES = 1 << 20
"""Batches with less of both are joined until they have as much together: Spark has a price for every
batch."""


@functools.lru_cache(maxsize=4)
def cluster_settings(address: ChannelAddress) -> ClusterSettings:
    """The driver's cluster, secrets included: asked for once by each worker process, never in a
    file or a plan."""
    return ClusterSettings.model_validate_json(client_of(address).ask(AskSettings()).json)


def read_splits(
    settings: ClusterSettings,
    input_name: str,
    topic: str,
    topic_id: str,
    splits: Sequence[tuple[int, int, int]],
    with_headers: bool,
    columns: Collection[str] | None = None,
    check: PlacementCheck | None = None,
    digest_version: int = INPUT_DIGEST_VERSION,
    json: StructType | None = None,
) -> Generator[pa.RecordBatch, None, list[Counted]]:
    """Yields the records of splits (partition, from, to), in order; returns of each how
    many there were and their digest.

    columns: those that somebody looks at, None for all. The others are there too but null: the digest covers
    the records as they are in Kafka all the same. check: looks at the first records of each partition. json: of the values,
    whose fields are to stand beside them (`json_types`).
    """
    needs_headers = with_headers and (columns is None or "headers" in columns)
    kind = input_kind(digest_version)
    reading = RangeReader(settings).read_each(
        input_name, topic, topic_id, splits, headers=needs_headers, kind=kind
    )
    seen = iter(reading) if check is None else map(check.look, reading)
    yield from _shown(seen, range_schema(headers=with_headers), columns, json)
    return _of(reading)


def read_generated(
    input_name: str,
    topic: str,
    topic_id: str,
    splits: Sequence[tuple[int, int, int]],
    randoms: Sequence[str],
    columns: Collection[str] | None = None,
) -> Generator[pa.RecordBatch, None, list[Counted]]:
    """The same of rows that follow from an address, with their random columns."""
    reading = read_rows(input_name, topic, topic_id, splits, randoms)
    yield from _shown(iter(reading), rows_schema(randoms), columns, None)
    return _of(reading)


def read_file_lines(
    input_name: str,
    topic: str,
    topic_id: str,
    splits: Sequence[tuple[int, int, int]],
    names: Sequence[str],
    columns: Collection[str] | None = None,
    json: StructType | None = None,
) -> Generator[pa.RecordBatch, None, list[Counted]]:
    """The same of lines of files. names: of the fields, which a header must name. json: as in `read_splits`."""
    beside = None if json is None else JsonColumns(json)

    def made(lines: FileLines) -> pa.RecordBatch:
        if beside is None:
            return lines.rows(columns)
        rows = lines.rows(None if columns is None else {*columns, "wrong"})
        added = beside.added_of(rows, lines.spans, lines.column)
        return added if columns is None else _only(added, columns, added.schema)

    reading = read_lines(input_name, topic, topic_id, splits, names, made)
    yield from joined(iter(reading))
    return _of(reading)


def _of(reading: RangeRead) -> list[Counted]:
    return [Counted(digest.records, digest.hex) for digest in reading.digests]


def _shown(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    columns: Collection[str] | None,
    json: StructType | None,
) -> Iterator[pa.RecordBatch]:
    """The batches as Spark gets them."""
    if json is not None:
        beside = JsonColumns(json)
        schema, batches = beside.beside(schema), map(beside.added, joined(batches))
    seen = batches if columns is None else (_only(batch, columns, schema) for batch in batches)
    return seen if json is not None else joined(seen)


def _only(batch: pa.RecordBatch, columns: Collection[str], schema: pa.Schema) -> pa.RecordBatch:
    """A null takes less to send and to unpack in the JVM than what nobody reads."""
    kept = [
        batch.column(field.name) if field.name in columns else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(kept, schema=schema)


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in fewer batches."""
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if _is_enough(batch.num_rows, batch.nbytes):
            yield from _one(small)
            yield batch
        else:
            small.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if not _is_enough(rows, size):
                continue
            yield from _one(small)
        small, rows, size = [], 0, 0
    yield from _one(small)


def _is_enough(rows: int, size: int) -> bool:
    return rows >= _ENOUGH_ROWS or size >= _ENOUGH_BYTES


def _one(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches:
        yield pa.concat_batches(batches)
