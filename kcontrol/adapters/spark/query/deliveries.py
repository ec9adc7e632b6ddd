"""Which outputs are written by other nodes than those that make their rows.

Behind an exchange a row may be on any node. If its key, its column `partition` or its output's `node` says which
partition it belongs to, it is brought to the node that owns that; with it go rows of all outputs of its query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.definition.exchanges import DELIVER, ExchangeFacts
from kcontrol.definition.pipeline import Pipeline


def deliveries(pipeline: Pipeline, queries: Sequence[BoundQuery]) -> Iterator[ExchangeFacts]:
    """An exchange for each output that needs one."""
    for query in queries:
        pinned = any(pipeline.output(name).node is not None for name in query.outputs)
        if query.exchanges and (pinned or not query.unkeyed):
            for name in query.outputs:
                yield ExchangeFacts(f"{name}{DELIVER}", (), query.stage, query.name, delivers=name)
