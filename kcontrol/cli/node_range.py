"""`--nodes` of jobs that agents run: a number, or between which numbers it follows the size of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from kcontrol.apps.agent.fitting import Nodes

_Command = TypeVar("_Command", bound=Callable[..., Any])
_RANGE = re.compile(r"(\d{1,9})(?:(\.\.)(\d{1,9})?)?", re.ASCII)


class NodesType(click.ParamType):
    """N, N..M or N.. as how many nodes a job is to have."""

    name = "nodes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Nodes:
        if isinstance(value, Nodes):
            return value
        found = _RANGE.fullmatch(str(value))
        if found is None:
            self.fail(
                f"{value!r} is neither a number nor LEAST..MOST nor LEAST.., as 3, 2..8 or 2..", param, ctx
            )
        least, most = int(found[1]), int(found[3]) if found[3] else None
        if not found[2]:
            most = least
        if least < 1 or (most is not None and most < least):
            self.fail(f"{value!r}: at least 1, and no more at least than at most", param, ctx)
        return Nodes(least, most)


def nodes_range_options(default: str | None, help_: str) -> Callable[[_Command], _Command]:
    """--nodes and --percentage, as the parameters `nodes` and `percentage`."""

    def add(command: _Command) -> _Command:
        percentage = click.option(
            "--percentage",
            type=click.IntRange(1, 100),
            metavar="P",
            help="With --nodes LEAST..MOST, where the scheduler of jobs is `percentage`: so much of the cluster.",
        )
        nodes = click.option(
            "--nodes",
            type=NodesType(),
            default=default,
            show_default=default is not None,
            metavar="N|LEAST..MOST",
            help=help_
            + " LEAST..MOST, or LEAST..: as many as the cluster has room for, also when hosts come and go.",
        )
        return nodes(percentage(command))

    return add


def asked_nodes(nodes: Nodes | None, percentage: int | None) -> Nodes | None:
    """Both together. Raises click.UsageError."""
    if percentage is None:
        return nodes
    if nodes is None or not nodes.follows:
        raise click.UsageError(
            "--percentage is for a number of nodes that follows the cluster: say --nodes LEAST..MOST"
        )
    return replace(nodes, percentage=percentage)
