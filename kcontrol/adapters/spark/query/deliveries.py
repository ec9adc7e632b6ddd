"""Which outputs are written by other nodes than those that make their rows.

Behind an exchange a row may be on any node. If its key, its column `partition` or its output's `node` says which
partition it belongs to, it is brought to the node that owns that. So are rows of inputs, if their output is of one node
and they are not on that alone, or if they have keys and are on one node, but their output is shared out. All of it follows
from the definition, never from how many partitions a topic happens to have: steps are run again long after it was given
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from kcontrol.adapters.spark.channel.targets import DIGEST_COLUMN
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.query.exchanging import with_digest
from kcontrol.core.model import SHARED_OUT
from kcontrol.definition.exchanges import DELIVER, ExchangeFacts
from kcontrol.definition.homes import home_of
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
    """All outputs of a query, or none: its rows go one way. Those of dead letters are of the node that reads their input."""
    outputs = [each for each in pipeline.outputs if each.name in query.outputs]
    if pipeline.nodes == 1 or any(output.partitioner == "shard" for output in outputs):
        return False
    pinned = {output.node for output in outputs if output.node is not None}
    if query.exchanges:
        return not query.unkeyed or bool(pinned)
    home = home_of(pipeline, query.inputs)
    is_shared_out = any(output.node is None for output in outputs)
    return bool(pinned - {home}) or (home != SHARED_OUT and query.keyed and is_shared_out)


def _hashed(pipeline: Pipeline, query: BoundQuery) -> StructType:
    """What the digest of its outputs, which is one for all, leaves out may differ when the rows are made again."""
    fields = query.frame.schema.fields
    if pipeline.output(query.outputs[0]).digest == "count":
        return StructType([])
    rounded = DIGEST_COLUMN in query.frame.columns
    return StructType([field for field in fields if not (rounded and field.name == "value")])
