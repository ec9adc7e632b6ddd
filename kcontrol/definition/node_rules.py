"""Whether a pipeline can be right on several nodes. A node sees only its own partitions.

So keyed state, and outputs with keys, are right only when equal keys always share a partition number
everywhere. That can't be seen from here: inputs must say so (`partitioned_by`), what they say must fit
together, and what queries group, join and leave out by must hold it; otherwise the pipeline is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from kcontrol.core.model import SHARED_OUT, InputSpec, OutputSpec
from kcontrol.definition.exchange_rules import said_where
from kcontrol.definition.homes import on_nodes
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError

if TYPE_CHECKING:
    from kcontrol.definition.resolve import QueryFacts


def check_work(
    pipeline: Pipeline,
    inputs: Sequence[InputSpec],
    outputs: Sequence[OutputSpec],
    delivered: Collection[str] = (),
    *,
    all_receive: bool = False,
) -> None:
    """Raise ConfigurationError if a node would have nothing to read, or no partition of an output that is
    shared out. delivered: outputs whose rows are brought to the nodes that write them. all_receive: rows come to every
    node, so one that reads no input has its work, too."""
    where = on_nodes(pipeline)
    reading = {node for each in inputs for node in each.node_of}
    if len(reading) < pipeline.nodes and not all_receive:
        most = max(len(each.start_offsets) for each in inputs)
        raise ConfigurationError(
            f"{where}: its inputs have at most {most} partitions, so some nodes would have nothing to read: use fewer "
            "nodes, or bring rows to all of them, by keys, with kcontrol.exchange()"
        )
    for output in outputs:
        if output.name in delivered:
            continue
        if output.node == SHARED_OUT and output.partitions < pipeline.nodes:
            raise ConfigurationError(
                f"{where}: topic {output.topic!r} of output {output.name!r} has {output.partitions} "
                f"partitions, so some nodes could write nothing to it; it needs at least {pipeline.nodes}, or "
                f"{_all_of(output, inputs)}"
            )


def _all_of(output: OutputSpec, inputs: Sequence[InputSpec]) -> str:
    """What makes one node write all of an output."""
    letters = next((each.name for each in inputs if each.dead_letter_output == output.name), None)
    if letters is not None:
        return f"node= of input {letters!r}, the one node that reads it and writes its bad records"
    return "node= of the output, the one node that writes all of it, to which the others bring their rows"


def check_keys(
    pipeline: Pipeline,
    inputs: Sequence[InputSpec],
    outputs: Sequence[OutputSpec],
    *,
    gathers: bool,
    brings_key: Collection[str],
) -> None:
    """Raise ConfigurationError if several nodes could give another result than one.

    inputs: of the queries that are at home on no one node. outputs: that are shared out. gathers: those queries
    bring rows together, by keys. brings_key: outputs with keyed rows.
    """
    if pipeline.nodes == 1:
        return
    where = on_nodes(pipeline)
    keyed = [each for each in outputs if each.key or each.name in brings_key]
    if not gathers and not keyed:
        return
    why = "it keeps state or groups rows" if gathers else f"output {keyed[0].name!r} has keys"
    # What groups rows has to have them by what it groups them by, which is not known here.
    exchange = "kcontrol.exchange()" if gathers else _exchange_by(keyed[0].key)
    for each in inputs:
        if each.node != SHARED_OUT:
            raise ConfigurationError(
                f"{where}: {why}, and input {each.name!r}, which node {each.node} reads alone, is read together "
                "with inputs that are not that node's: pin all of them to one node, or none, or bring rows together with "
                f"{exchange}"
            )
        if not each.partitioned_by:
            raise ConfigurationError(
                f"{where}: {why}, and input {each.name!r} does not say by which column it is partitioned: "
                "set partitioned_by= if equal keys always share a partition, bring rows together with "
                f"{exchange}, or use one node"
            )
    _check_partitions(where, why, inputs, keyed, exchange)
    columns = {each.partitioned_by for each in inputs}
    for output in keyed:
        if output.key and columns != {output.key}:
            raise ConfigurationError(
                f"{where}: output {output.name!r} has the key {output.key!r}, but inputs are partitioned by "
                f"{', '.join(sorted(columns))}: two nodes could write the same key. Bring rows together with "
                f"{exchange if gathers else _exchange_by(output.key)}"
            )


def check_scattered(pipeline: Pipeline, query: QueryFacts) -> None:
    """Raise ConfigurationError if a query needs rows of other nodes."""
    if pipeline.nodes == 1:
        return
    by = ", ".join(
        f"input {each.name!r} "
        + (f"is partitioned by {each.partitioned_by!r}" if each.partitioned_by else "does not say by what")
        for each in pipeline.inputs
    )
    for what, remedy in zip_longest(query.scattered, query.remedies):
        exchange = f"kcontrol.exchange(..., {remedy})" if remedy else "kcontrol.exchange()"
        raise ConfigurationError(
            f"{said_where(query)}{on_nodes(pipeline)}: query {query.name!r} {what}, but {by}: rows that belong together "
            "would be on several nodes, each of which would give a part of the result as if it were the whole. Bring "
            f"them together before, with {exchange}; or use one node (nodes = 1); or have "
            "the column by which inputs are partitioned, unchanged, among the keys; or have the producers "
            "partition the topics by what the query takes together, and say so with partitioned_by"
        )


def check_watermark(pipeline: Pipeline, query: QueryFacts) -> None:
    """Raise ConfigurationError if a query needs one watermark, and each of several nodes would have its own."""
    if pipeline.nodes > 1 and query.has_watermark:
        raise ConfigurationError(
            f"{said_where(query)}{on_nodes(pipeline)}: query {query.name!r} has a watermark, and every node would have "
            "one of its own, from its own partitions: "
            "rows would be late on one node and not on another, and windows would not close where nothing "
            "comes. Bring the rows together before, with kcontrol.exchange(), behind which all nodes go by one watermark; or "
            "use one node (nodes = 1)"
        )


def _exchange_by(key: str) -> str:
    return f'kcontrol.exchange(..., by="{key}")' if key else "kcontrol.exchange()"


def _check_partitions(
    where: str, why: str, inputs: Sequence[InputSpec], keyed: Sequence[OutputSpec], exchange: str
) -> None:
    counts = {f"input {each.name!r}": len(each.start_offsets) for each in inputs}
    counts |= {f"output {each.name!r}": each.partitions for each in keyed}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{what} has {count}" for what, count in counts.items())
        raise ConfigurationError(
            f"{where}: {why}, so all must have the same number of partitions, but {found}: give them as many, or bring rows "
            f"together with {exchange}"
        )
