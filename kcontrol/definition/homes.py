"""Inputs and outputs that one node has to itself, and queries that are at home on it.

A query all of whose inputs are read by one node finds every row there, as it would with one node: it may keep
state by any key, have a watermark, and write an output of that node. What such an output is given by another
node would have to be brought to it, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcontrol.core.model import SHARED_OUT, OutputSpec
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
    """The node that alone reads each of these inputs, or SHARED_OUT. reads: empty means all."""
    nodes = {each.node for each in pipeline.inputs if not reads or each.name in reads}
    home = nodes.pop() if len(nodes) == 1 else None
    return SHARED_OUT if home is None else home


def check_home(
    pipeline: Pipeline, query: str, reads: Sequence[str], writes: Sequence[OutputSpec], *, brings_key: bool
) -> int:
    """Where a query is at home: `home_of`; on one node, there.

    reads: its inputs. writes: its outputs. brings_key: its rows bring their keys.
    Raises ConfigurationError when an output is of another node than the rows, or its rows have keys and some of
    their partitions are other nodes'.
    """
    if pipeline.nodes == 1:
        return 0
    home = home_of(pipeline, reads)
    where = f"{on_nodes(pipeline)}: query {query!r}"
    named = ", ".join(reads or [each.name for each in pipeline.inputs])
    for output in writes:
        if output.node not in (SHARED_OUT, home):
            raise ConfigurationError(
                f"{where} writes output {output.name!r}, which is of node {output.node}, and reads {named}, "
                f"which {'are not all of one node' if home == SHARED_OUT else f'are of node {home}'}: its rows "
                f"can't come to node {output.node}. Say node={output.node} of each input that it reads, or leave node= out of "
                "the output, or bring its rows together before, with kcontrol.exchange(): from behind that they come to the "
                "node that writes them (with by=[] all rows are on one node)"
            )
        if home != SHARED_OUT and output.node == SHARED_OUT and (brings_key or output.key):
            raise ConfigurationError(
                f"{where} reads inputs of node {home} alone and gives output {output.name!r} rows with keys, "
                f"whose partitions are shared out among the nodes: say node={home} of the output too, or bring its rows "
                "together before, with kcontrol.exchange(): from behind that they come to the nodes that write them"
            )
    return home


def check_busy(pipeline: Pipeline, homes: Sequence[int]) -> None:
    """Raise ConfigurationError if a node would run no query. homes: of all queries."""
    idle = sorted(set(range(pipeline.nodes)) - set(homes))
    if SHARED_OUT not in homes and idle:
        raise ConfigurationError(
            f"{on_nodes(pipeline)}: every query reads inputs of one node "
            f"alone, and none those of node {idle[0]}, which would have nothing to do"
        )
