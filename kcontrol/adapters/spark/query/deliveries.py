"""Which outputs are written by other nodes than those that make their rows.

Behind an exchange a row may be on any node. If its key, its column `partition` or its output's `node` says which
partition it belongs to, it is brought to the node that owns that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from kcontrol.adapters.spark.channel.targets import DIGEST_COLUMN
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.query.exchanging import with_digest
from kcontrol.definition.exchanges import DELIVER, ExchangeFacts
from kcontrol.definition.pipeline import Pipeline


def with_deliveries(
    pipeline: Pipeline, queries: Sequence[BoundQuery]
) -> tuple[tuple[BoundQuery, ...], tuple[ExchangeFacts, ...]]:
    """The queries, and an exchange for each output that needs one, whose query then brings what the digest of
    exchanged rows is made of."""
    delivering = {query.name for query in queries if _delivers(pipeline, query)}
    exchanges = [
        ExchangeFacts(f"{name}{DELIVER}", (), query.stage, query.name, delivers=name)
        for query in queries
        if query.name in delivering
        for name in query.outputs
    ]
    made = [
        replace(query, frame=with_digest(query.frame, _hashed(pipeline, query)))
        if query.name in delivering
        else query
        for query in queries
    ]
    return tuple(made), tuple(exchanges)


def _delivers(pipeline: Pipeline, query: BoundQuery) -> bool:
    """All outputs of a query, or none: its rows go one way."""
    if not query.exchanges or any(pipeline.output(name).partitioner == "shard" for name in query.outputs):
        return False
    return not query.unkeyed or any(pipeline.output(name).node is not None for name in query.outputs)


def _hashed(pipeline: Pipeline, query: BoundQuery) -> StructType:
    """What the digest of its outputs, which is one for all, leaves out may differ when the rows are made again."""
    fields = query.frame.schema.fields
    if pipeline.output(query.outputs[0]).digest == "count":
        return StructType([])
    rounded = DIGEST_COLUMN in query.frame.columns
    return StructType([field for field in fields if not (rounded and field.name == "value")])
