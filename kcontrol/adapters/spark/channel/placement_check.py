"""Whether records lie where `partitioned_by` says: checked with the first ones that a step reads of each
partition.

On several nodes the rows of a keyed output must come to the node that may write their partition, and that
follows from Kafka's murmur2 of the key. Producers of librdkafka partition otherwise unless they are told
(CRC-32), and such a pipeline would fail at the first row that another node should have had, when state may
have been built on it.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kcontrol.adapters.spark.values.avro_columns import ValueReader
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError
from kcontrol.wire.murmur2 import partition_of

SAMPLED_RECORDS = 100
"""Of each partition in each step, at most."""
_BAD = "__bad"


@dataclass(frozen=True, slots=True)
class DeclaredPlacing:
    """What an input says of itself. column: 'key' for the record's key. value_format: 'json', 'avro' or
    'raw'."""

    input: str
    column: str
    value_format: str
    schema: str = ""
    """Of an Avro value."""


class PlacementCheck:
    """Looks at the records of one task. partitions: how many the input's topic has."""

    def __init__(self, declared: DeclaredPlacing, topic: str, partitions: int) -> None:
        self._declared, self._topic, self._partitions = declared, topic, partitions
        self._key_of = _key_reader(declared)
        self._seen: Counter[int] = Counter()

    def look(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as it is. Raises StepFailedError (REFUSED) when a record that is looked at lies
        elsewhere.

        A record without a key, or with a value that can't be parsed, says nothing.
        """
        if self._key_of is not None:
            for rows in _by_partition(batch):
                self._look(rows, self._key_of)
        return batch

    def _look(self, batch: pa.RecordBatch, key_of: Callable[[dict[str, Any]], bytes | None]) -> None:
        partition = batch.column("partition")[0].as_py()
        left = SAMPLED_RECORDS - self._seen[partition]
        if left <= 0:
            return
        rows = batch.slice(0, left)
        self._seen[partition] += rows.num_rows
        wrong = []
        for row in rows.select(["key", "value", "partition", "offset"]).to_pylist():
            key = key_of(row)
            if key is not None and partition_of(key, self._partitions) != row["partition"]:
                wrong.append((row["offset"], key))
        if wrong:
            raise self._refusal(partition, wrong, self._seen[partition])

    def _refusal(self, partition: int, wrong: list[tuple[int, bytes]], looked_at: int) -> StepFailedError:
        offset, key = wrong[0]
        return StepFailedError(
            FailureKind.REFUSED,
            f"input {self._declared.input!r}: partitioned_by={self._declared.column!r} says that records of "
            f"topic {self._topic!r} lie where Kafka's murmur2 of it says, and {len(wrong)} of the first "
            f"{looked_at} of partition {partition} do not: offset {offset} has {_shown(key)}, which belongs "
            f"to partition {partition_of(key, self._partitions)} of {self._partitions}. Nothing was "
            "committed. Producers of librdkafka (confluent-kafka, kcat ...) partition so only with "
            "partitioner=murmur2_random, and no producer does if its key is another column. Write the "
            "topic anew and submit the pipeline under a new name, or use one node (nodes=1)",
        )


def _by_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of each partition; those of one lie together."""
    partitions = batch.column("partition").to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), batch.num_rows]
    for begin, end in itertools.pairwise(begins):
        if begin < end:
            yield batch.slice(begin, end - begin)


def _key_reader(declared: DeclaredPlacing) -> Callable[[dict[str, Any]], bytes | None] | None:
    """A function from a record to what it is placed by, None where it does not say; None if no record can
    say."""
    column = declared.column
    if column == "key":
        return lambda row: row["key"]
    if declared.value_format == "json":
        return lambda row: _text(_json_field(row["value"], column))
    if declared.value_format == "avro":
        reader = ValueReader(declared.schema, _BAD, 0)
        return lambda row: None if row["value"] is None else _text(reader.read(row["value"]).get(column))
    return None


def _json_field(value: bytes | None, column: str) -> Any:
    try:
        found = json.loads(value) if value is not None else None
    except (ValueError, RecursionError):
        return None
    return found.get(column) if isinstance(found, dict) else None


def _text(value: Any) -> bytes | None:
    """As Spark casts it to text, of the types whose text is one and the same everywhere; None for others."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value).encode(errors="replace")
    return None


def _shown(key: bytes) -> str:
    return repr(key.decode(errors="backslashreplace"))[:100]
