"""Inputs and outputs that one node has to itself, and queries that are at home on it.

A query all of whose inputs are read by one node finds every row there, as it would with one node: it may keep
state by any key, have a watermark, and write an output of that node. Rows for an output of another node are brought
to it, as keyed rows are to the nodes that own their partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcontrol.core.model import SHARED_OUT
from kcontrol.errors import ConfigurationError

if TYPE_CHECKING:
    from kcontrol.definition.pipeline import Pipeline


def on_nodes(pipeline: Pipeline) -> str:
    """Where an error is that has to do with the number of nodes."""
    return f"pipeline {pipeline.name!r} with nodes = {pipeline.nodes}"


def check_pins(pipeline: Pipeline) -> None:
    """Raise ConfigurationError if an input or output is of a node that there is not."""
    pinned = {f"input {each.name!r}": each.node for each in pipeline.inputs if each.node is not None}
    pinned |= {f"output {each.name!r}": each.node for each in pipeline.outputs if each.node is not None}
    for what, node in pinned.items():
        if node >= pipeline.nodes:
            raise ConfigurationError(
                f"pipeline {pipeline.name!r}: {what} is of node = {node}, but with nodes = {pipeline.nodes} "
                f"they are numbered from 0 to {pipeline.nodes - 1}"
            )


def home_of(pipeline: Pipeline, reads: Sequence[str]) -> int:
    """The node that alone reads each of these inputs, or SHARED_OUT; on one node, that. reads: empty means all."""
    if pipeline.nodes == 1:
        return 0
    nodes = {each.node for each in pipeline.inputs if not reads or each.name in reads}
    home = nodes.pop() if len(nodes) == 1 else None
    return SHARED_OUT if home is None else home


def check_busy(pipeline: Pipeline, homes: Sequence[int]) -> None:
    """Raise ConfigurationError if a node would run no query. homes: of all queries."""
    idle = sorted(set(range(pipeline.nodes)) - set(homes))
    if SHARED_OUT not in homes and idle:
        raise ConfigurationError(
            f"{on_nodes(pipeline)}: every query reads inputs of one node "
            f"alone, and none those of node {idle[0]}, which would have nothing to do"
        )
