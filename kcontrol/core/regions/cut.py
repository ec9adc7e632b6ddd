"""A cut of a region: one committed step of each pipeline, with nothing under way between any two of them.

For each topic that one pipeline of the region writes and another one reads, the reader's step has read exactly to the end
of what the writer had written by its own step. So all that the outer input before the cut leads to, and nothing else, is
in the topics and in the states. Positions are offsets that boundaries hold, so whether a cut is one can be told at any
time, by anybody, from the logs of steps alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.graph import RegionGraph

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class PipelineCut:
    """A pipeline after one of its steps. positions: of each partition that it reads, the next offset. ends: of each
    partition that it writes, whether it has written to it or not, the offset after its last record."""

    step: int
    positions: Mapping[Place, int]
    ends: Mapping[Place, int]


class WrittenRange(Protocol):
    """What is looked at of an OutputSlice."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def from_(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def records(self) -> int: ...


class WritingStep(Protocol):
    """What is looked at of a StepBoundary that a drain or a rollback has passed."""

    @property
    def step(self) -> int: ...
    @property
    def outputs(self) -> Sequence[WrittenRange]: ...


def standing(last: StepBoundary, asked: Mapping[Place, int], written: Mapping[Place, int]) -> PipelineCut:
    """A pipeline that is held after its last step.

    asked: where the partitions of its outputs end, as brokers have said meanwhile, which may be old. written: what its log says
    of that (`written_up_to`), up to its last step: none ends before.
    """
    topics = {topic for topic, _ in asked}
    places = [*asked, *(place for place in written if place[0] in topics)]
    ends = {place: max(asked.get(place, 0), written.get(place, 0)) for place in places}
    return PipelineCut(last.step, {(each.topic, each.partition): each.to for each in last.inputs}, ends)


def written_up_to(boundaries: Iterable[WritingStep]) -> dict[Place, int]:
    """Of each partition that steps wrote to, the offset after the last record. What void steps wrote is there, too."""
    return {
        (each.topic, each.partition): each.to
        for boundary in boundaries
        for each in boundary.outputs
        if each.records
    }


def written_after(boundaries: Iterable[WritingStep], step: int) -> dict[Place, int]:
    """Of each partition that a pipeline wrote to after a step, the first offset of that."""
    found: dict[Place, int] = {}
    for boundary in boundaries:
        if boundary.step > step:
            for each in boundary.outputs:
                if each.records:
                    found.setdefault((each.topic, each.partition), each.from_)
    return found


def in_flight(
    graph: RegionGraph,
    cuts: Mapping[str, PipelineCut],
    after: Mapping[str, Mapping[Place, int]] | None = None,
) -> tuple[str, ...]:
    """What is wrong with a cut, one sentence each; () if nothing is in flight in it.

    after: by pipeline, the first offset in each partition of what it wrote after its step (`written_after`). Between the
    end of what counts and this lie markers of transactions and records that were aborted, which a reader may have passed
    over, or not.
    """
    wrong = []
    for name in sorted(graph.reads.keys() - cuts.keys()):
        wrong.append(f"pipeline {name!r} has no step in it")
    for reader, cut in sorted(cuts.items()):
        for topic in sorted(graph.inner(reader)):
            writer = graph.writer_of[topic]
            if writer in cuts:
                later = {} if after is None else after.get(writer, {})
                wrong += _torn(topic, (writer, cuts[writer]), (reader, cut), later)
    return tuple(wrong)


def _torn(
    topic: str, writer: tuple[str, PipelineCut], reader: tuple[str, PipelineCut], later: Mapping[Place, int]
) -> list[str]:
    (by, wrote), (to, read) = writer, reader
    places = {place for place in (*wrote.ends, *read.positions, *later) if place[0] == topic}
    wrong = []
    for place in sorted(places):
        position, end, beyond = read.positions.get(place, 0), wrote.ends.get(place, 0), later.get(place)
        where = f"topic {topic!r}, partition {place[1]}"
        if position < end:
            wrong.append(
                f"{where}: {by!r} had written up to offset {end} by its step {wrote.step}, and {to!r} had read "
                f"up to {position} by its step {read.step}"
            )
        elif beyond is not None and position > beyond:
            wrong.append(
                f"{where}: {to!r} had read up to offset {position} by its step {read.step}, and what {by!r} "
                f"wrote after its step {wrote.step} begins at {beyond}"
            )
    return wrong
