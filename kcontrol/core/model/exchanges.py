"""Rows on their way from node to node within one step: who sends them, where they lie, and who has taken them.

An exchange is a topic that nodes write in the step's own transaction and read, before that is committed, at exactly the
offsets that its writers have named. Each of its partitions belongs to one writer task of one node (its slot), so that nothing
else is ever written between the rows of an attempt.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.words import WatermarkPolicy


@dataclass(frozen=True, slots=True)
class ExchangeSpec:
    """One exchange as it was resolved when the pipeline was first submitted."""

    name: str
    topic: str
    topic_id: str
    by: tuple[str, ...]
    """Columns of the exchanged rows whose hash says to which shard a row belongs; () brings all rows to shard 0."""
    sender: str
    """The Spark query that sends: it writes no output."""
    stage: int
    """Of the sender, counted from 0. Whoever reads the exchange is of a later one."""
    delivers: str = ""
    """The output whose keyed rows it brings to the nodes that own their partitions, which then write them without Spark; '':
    Spark queries read it."""


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """A query whose watermark is one for all nodes: the coordinator folds it from what they have seen."""

    query: str
    delays_ms: tuple[int, ...]
    """Of each of its watermark operators, in the order of the plan."""
    policy: WatermarkPolicy


@dataclass(frozen=True, slots=True)
class ExchangeRun:
    """Offsets [from_, to) that hold the rows for one node."""

    node: int
    from_: int
    to: int
    records: int
    """Rows, not records of Kafka: one of those holds many rows."""
    digest: str
    """Of the rows, whatever their order and however they were packed: two sums of 64 bits, each modulo 2^64, in
    hexadecimal, so that the digests of several runs can be added up."""


@dataclass(frozen=True, slots=True)
class ExchangeSlice:
    """What one writer task sent to an exchange: its runs cover [from_, to) in order, without a gap.

    Where it was cut down to what is for one node, the other runs are left out, and [from_, to) is as it was.
    """

    exchange: str
    partition: int
    from_: int
    to: int
    runs: tuple[ExchangeRun, ...]


@dataclass(frozen=True, slots=True)
class ExchangeTaken:
    """What a node has read of an exchange in a step: it must be all that was sent to it."""

    exchange: str
    node: int
    records: int


@dataclass(frozen=True, slots=True)
class ExchangeLayout:
    """How an exchange is cut into Spark tasks in a step."""

    exchange: str
    senders: int
    """Writer tasks of each node."""
    readers: int
    """Source tasks of each node."""


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The greatest event time that each watermark operator of a query has seen in a step, on one node, in the order of the
    plan; 0: none. In milliseconds since the Unix epoch."""

    query: str
    node: int
    max_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark of a query after a step, the same on all nodes: of each of its operators, and the one that counts. In
    milliseconds since the Unix epoch."""

    query: str
    operators_ms: tuple[int, ...]
    ms: int
