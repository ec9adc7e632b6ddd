"""A pipeline of two nodes whose rows meet by key, and what its nodes say, for tests that care about one of its fields."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.model import (
    ExchangeRun,
    ExchangeSlice,
    ExchangeSpec,
    ExchangeTaken,
    FailureKind,
    LayoutSpec,
    Token,
    WatermarkPolicy,
    WatermarkSpec,
    Written,
)
from tests.unit.core.made import SPEC

STAGED = replace(
    SPEC,
    nodes=2,
    queries=("x.send", "q"),
    stages=(0, 1),
    inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),),
    layout=LayoutSpec(max_tasks=2, records_per_task=4, shuffle_partitions=4),
    exchanges=(ExchangeSpec("x", "exchange.x", "T9", ("k",), "x.send", 0),),
)
DELIVERED = replace(
    STAGED, exchanges=(*STAGED.exchanges, ExchangeSpec("y", "exchange.y", "T8", (), "q", 1, "out"))
)
SHARED = replace(STAGED, watermarks=(WatermarkSpec("q", (10, 0), WatermarkPolicy.MIN),))


def digest(number: int) -> str:
    """Of some rows."""
    return f"{number:016x}{number * 3:016x}"


def run(node: int, from_: int, to: int, records: int = 1) -> ExchangeRun:
    """Rows for a node."""
    return ExchangeRun(node, from_, to, records, digest(records))


def sent(slot: int, *runs: ExchangeRun, exchange: str = "x") -> ExchangeSlice:
    """What one task has sent."""
    first, last = (runs[0].from_, runs[-1].to) if runs else (0, 0)
    return ExchangeSlice(exchange, slot, first, last, runs)


def told(
    token: Token,
    node: int,
    *slices: ExchangeSlice,
    stage: int = 0,
    early: bool = True,
    step: int = 1,
    failure: FailureKind | None = None,
    taken: tuple[ExchangeTaken, ...] = (),
) -> Written:
    """A node's report of a stage."""
    return Written(
        *("p", node, token.incarnations[node], step, token, (), (), (), False, failure),
        "it broke" if failure else "",
        stage=stage,
        early=early,
        sent=slices,
        taken=taken,
    )
