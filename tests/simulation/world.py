"""The world that the cores live in, in memory: two logs, a transaction coordinator, inputs and outputs, and one clock.

It behaves as Kafka was seen to behave (design 5): InitProducerId is last-caller-wins and aborts what was open; a write counts
only under the newest producer epoch and to a partition that was added; a commit makes boundary and outputs visible together.
Every change of what a reader could see is checked at once; see invariants.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from kcontrol.core.keys import key_of
from kcontrol.core.model import ControlRecord, Logged, LoggedStep, OutputSlice, PipelineSpec, StepBoundary, Token, Tombstone
from kcontrol.core.pipeline_view import PipelineView, evolve
from tests.simulation.invariants import Violation, check_commit

PRODUCER_ID = 7
_T = TypeVar("_T")


def twin_of(one: _T) -> _T:
    """Another object with the same attributes."""
    twin = object.__new__(type(one))
    twin.__dict__.update(one.__dict__)
    return twin


class Fenced(Exception):
    """The producer epoch is not the newest, or the partition is not in the transaction."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What one task wrote to one output partition."""

    output: int
    partition: int
    from_: int
    to: int
    step: int
    token: Token
    incarnation: int


class World:
    """All that survives the death of a process."""

    def __init__(self, spec: PipelineSpec) -> None:
        self.spec = spec
        self.now_ms = 1_000_000
        self.control: list[Logged | None] = []
        """By offset; None where compaction has removed the record."""
        self.newest: dict[str, int] = {}
        """By key, the offset of its newest record."""
        self.steps: list[LoggedStep] = []
        self.input_ends = [list(item.start_offsets) for item in spec.inputs]
        self.input_earliest = [0 for _ in spec.inputs]
        self.epoch = 0
        self.added: frozenset[tuple[str, int]] = frozenset()
        self.open: list[Segment] = []
        self.output_ends = {(o, p): 0 for o, item in enumerate(spec.outputs) for p in range(item.partitions)}
        self.tokens: set[Token] = set()
        self.events = 0
        """How many events the cores have decided."""
        self.view = PipelineView.empty(spec.pipeline)
        """A fold of everything that was ever in the control log."""
        self.ruling_epoch = -1
        """The newest claim whose coordinator has fenced and read both logs: from then on no older one may commit."""

    def clone(self) -> World:
        """A world of its own that is like this one."""
        twin = twin_of(self)
        twin.control = list(self.control)
        twin.newest = dict(self.newest)
        twin.steps = list(self.steps)
        twin.input_ends = [list(ends) for ends in self.input_ends]
        twin.open = list(self.open)
        twin.output_ends = dict(self.output_ends)
        twin.tokens = set(self.tokens)
        return twin

    # --- the control log ----------------------------------------------------------------------------------------------

    def append(self, record: ControlRecord | Tombstone) -> int:
        """At the end of the control log; its offset."""
        offset = len(self.control)
        logged = Logged(offset, self.now_ms, record)
        self.control.append(logged)
        self.view = evolve(self.view, logged)
        self.newest[record.key if isinstance(record, Tombstone) else key_of(record)] = offset
        return offset

    def compact(self, keep_tombstones_after: int) -> None:
        """Keep of each key the newest record only, and no tombstone older than the given offset."""
        kept = set(self.newest.values())
        for offset, logged in enumerate(self.control):
            if logged is None:
                continue
            old = isinstance(logged.record, Tombstone) and offset < keep_tombstones_after
            if old or offset not in kept:
                self.control[offset] = None

    # --- the transaction ----------------------------------------------------------------------------------------------

    def init_producer(self) -> tuple[int, int]:
        """Fences whoever had the transaction, and aborts it if it was open."""
        self.epoch += 1
        self.added = frozenset()
        self.open = []
        return PRODUCER_ID, self.epoch

    def add_partitions(self, epoch: int, partitions: tuple[tuple[str, int], ...]) -> None:
        """Opens the transaction."""
        if epoch != self.epoch:
            raise Fenced
        self.added = frozenset(partitions)

    def write(self, output: int, partition: int, records: int, step: int, token: Token, incarnation: int) -> OutputSlice:
        """One writer's records to one partition. The broker can't tell two writers of one epoch apart, so that is checked."""
        item = self.spec.outputs[output]
        if token.producer_epoch != self.epoch or (item.topic, partition) not in self.added:
            raise Fenced
        for other in self.open:
            if (other.output, other.partition) == (output, partition):
                raise Violation("one writer a partition", f"{incarnation} writes {item.name}/{partition} after {other}")
        begin = self.output_ends[output, partition]
        self.output_ends[output, partition] = begin + records
        self.open.append(Segment(output, partition, begin, begin + records, step, token, incarnation))
        return OutputSlice(item.name, item.topic, partition, begin, begin + records, records, f"{records:032x}")

    def commit(self, epoch: int, boundary: StepBoundary) -> None:
        """The boundary and everything that was written under the epoch become visible at once."""
        if epoch != self.epoch or not self.added:
            raise Fenced
        check_commit(self, boundary)
        self.steps.append(LoggedStep(len(self.steps), boundary))
        self.tokens.add(boundary.token)
        self.open = []
        self.added = frozenset()
