"""What senders take, of rows as they were read: with their shards and hashes, as Spark would compute them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.channel.targets import HASH_COLUMNS, SHARD_COLUMN
from kcontrol.adapters.spark.source.as_read import SentAsRead
from kcontrol.adapters.spark.source.exchange_schema import arrow_schema
from kcontrol.wire.row_hash import row_hashes, shards_of


class SentColumns:
    """kinds: of the columns that are sent, in their order."""

    def __init__(self, sent: SentAsRead, kinds: StructType) -> None:
        self._sent, self._types = sent, [field.type for field in arrow_schema(kinds)]
        self._names = [*(name for name, _ in sent.columns), SHARD_COLUMN, *HASH_COLUMNS]

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are sent, the shard of each row, and its two hashes."""
        columns = [
            column if (column := rows.column(read)).type.equals(kind) else column.cast(kind)
            for (_, read), kind in zip(self._sent.columns, self._types, strict=True)
        ]
        named = dict(zip(self._names, columns, strict=False))
        shards = shards_of([named[name] for name in self._sent.by], rows.num_rows, self._sent.shards)
        first, second = row_hashes(columns, rows.num_rows)
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(shards), pa.array(first), pa.array(second)], self._names
        )
