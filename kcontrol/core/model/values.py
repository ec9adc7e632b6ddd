"""The parts that records are made of: tokens, slices of input and output, the layout of a step."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.exchanges import ExchangeLayout

EMPTY_DIGEST = "0" * 32
"""The digest of no records."""


@dataclass(frozen=True, slots=True)
class Token:
    """What one attempt at a step is known by; compared for equality only, never by order."""

    claim_epoch: int
    attempt: int
    producer_id: int
    producer_epoch: int
    incarnations: tuple[int, ...]
    """By node number."""


# --- slices of input and output -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputRange:
    """A part of a division: offsets [from_, to) of one partition of one input."""

    input: str
    topic: str
    topic_id: str
    partition: int
    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class InputSlice:
    """What a step read of one partition; `records` are the visible ones (no control,
    aborted or compacted-away records)."""

    input: str
    topic: str
    topic_id: str
    partition: int
    from_: int
    to: int
    records: int
    digest: str
    digest_version: int = 1
    """What the digest covers: 1 keys, values and headers; 2 timestamps, too."""


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """What a step wrote to one partition. `from_` is the first, `to` one past the last
    of its offsets; equal if none."""

    output: str
    topic: str
    partition: int
    from_: int
    to: int
    records: int
    digest: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records of an input that could not be parsed and were left out because the input says so."""

    input: str
    records: int


@dataclass(frozen=True, slots=True)
class LateRows:
    """Rows that the watermark of one query dropped on one node: they came to an operator with
    state after it had passed them.

    What Spark counts: rows as they reach the operator, so several records that were
    aggregated before may be one row.
    """

    query: str
    node: int
    rows: int


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Offsets [from_, to) of one partition that are in no step, because a user said so: see `SkipRequest`."""

    input: str
    topic: str
    topic_id: str
    partition: int
    from_: int
    to: int
    by: str
    asked_ms: int
    request_id: str


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """The part of an input that one Spark source task reads. Several splits may share a task, in the order
    listed."""

    input: str
    task: int
    partition: int
    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """How an output is written: into how many partitions, by how many writer tasks."""

    output: str
    partitions: int
    tasks: int
    digest: str
    """How the output's digest was made: 'exact', 'count' or 'float:TOLERANCE' (see OutputSpec)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a step is cut into Spark tasks. A function of spec and division only,
    recorded, and used again on replay."""

    splits: tuple[SourceSplit, ...]
    shuffle_partitions: int
    outputs: tuple[OutputLayout, ...]
    exchanges: tuple[ExchangeLayout, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class AgentPlacement:
    """Which entry of the log of a cluster of agents put a process where it runs; the greater is the newer.

    founded_ms: when that cluster's first agent began, by its wall clock: tells one log from the next.
    generation: offset of the entry.
    """

    founded_ms: int
    generation: int
