"""What must hold of a pipeline whose nodes exchange rows, besides what each query can be told of its own plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcontrol.definition.homes import on_nodes
from kcontrol.errors import ConfigurationError

if TYPE_CHECKING:
    from kcontrol.core.model import OutputSpec
    from kcontrol.definition.exchanges import ExchangeFacts
    from kcontrol.definition.pipeline import Pipeline
    from kcontrol.definition.resolve import QueryFacts


def stages_of(queries: Sequence[QueryFacts], exchanges: Sequence[ExchangeFacts]) -> int:
    """How many stages a step has."""
    delivered = [each.stage + 1 for each in exchanges if each.delivers]
    return 1 + max([query.stage for query in queries] + delivered, default=0)


def check_exchanges(
    pipeline: Pipeline, queries: Sequence[QueryFacts], exchanges: Sequence[ExchangeFacts]
) -> None:
    """Raise ConfigurationError if the pipeline has exchanges that can't be run as they are."""
    if not exchanges:
        return
    shards = pipeline.layout.shuffle_partitions
    if pipeline.nodes > shards and not all(each.delivers for each in exchanges):
        raise ConfigurationError(
            f"{on_nodes(pipeline)} exchanges rows among {shards} shards, so some nodes would get none: set "
            f"Layout(shuffle_partitions=...) to at least {pipeline.nodes}, or use fewer nodes"
        )
    stages = stages_of(queries, exchanges)
    if stages > pipeline.max_stages:
        chain = ", ".join(each.name for each in exchanges)
        raise ConfigurationError(
            f"{on_nodes(pipeline)} has steps of {stages} stages, one after the other, because of its exchanges {chain}: "
            f"bring rows together less often one after the other, or set Pipeline(max_stages={stages})"
        )


def check_readers(queries: Sequence[QueryFacts], exchanges: Sequence[ExchangeFacts]) -> None:
    """Raise ConfigurationError unless each exchange is read by a query, except where rows are delivered."""
    read = {name for query in queries for name in query.exchanges}
    for each in exchanges:
        if not each.delivers and each.name not in read:
            raise ConfigurationError(
                f"exchange {each.name!r}: no query reads the rows that it brings: use the frame that exchange() gives, or "
                "leave it out"
            )


def check_sharded(pipeline: Pipeline, outputs: Sequence[OutputSpec]) -> None:
    """Raise ConfigurationError if the node that owns a shard would not own the partition that its rows go to, or partitions
    would have other numbers of shards than others."""
    shards, nodes = pipeline.layout.shuffle_partitions, pipeline.nodes
    by_shard = {each.name for each in pipeline.outputs if each.partitioner == "shard"}
    for output in outputs:
        if (
            output.name in by_shard
            and nodes > 1
            and (output.partitions % nodes or shards % output.partitions)
        ):
            raise ConfigurationError(
                f"{on_nodes(pipeline)}: output {output.name!r} has partitioner='shard' and {output.partitions} partitions: "
                f"that must be a multiple of the number of nodes, {nodes}, and divide Layout(shuffle_partitions={shards}); or "
                "leave partitioner out"
            )


def said_where(query: QueryFacts) -> str:
    """File and line of a query, as a sentence about it begins."""
    return f"{query.where}: " if query.where else ""
