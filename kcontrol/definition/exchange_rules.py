"""What must hold of a pipeline whose nodes exchange rows, besides what each query can be told of its own plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcontrol.definition.homes import on_nodes
from kcontrol.errors import ConfigurationError

if TYPE_CHECKING:
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
    if pipeline.nodes > shards:
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
    """Raise ConfigurationError unless each exchange is read by one query, except where rows are delivered."""
    for each in exchanges:
        readers = [query for query in queries if each.name in query.exchanges]
        if each.delivers or len(readers) == 1:
            continue
        if not readers:
            raise ConfigurationError(
                f"exchange {each.name!r}: no query reads the rows that it brings: use the frame that exchange() gives, or "
                "leave it out"
            )
        named = " and ".join(repr(query.name) for query in readers)
        raise ConfigurationError(
            f"{said_where(readers[1])}exchange {each.name!r} is read by the queries {named}: call exchange() once for "
            "each of them"
        )


def said_where(query: QueryFacts) -> str:
    """File and line of a query, as a sentence about it begins."""
    return f"{query.where}: " if query.where else ""
