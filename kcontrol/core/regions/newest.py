"""The newest cut that the logs hold, without anybody being held or asked.

A step reads what lies committed in its topics, and what others have written lies there a step at a time. So pipelines that
keep up come to cuts by themselves, again and again, and whether steps are one can be told from their boundaries.

There is a newest one, in the strict sense: of two cuts, the later step of each pipeline make a cut as well, because a
reader's position and a writer's end both only grow. It is found by going back, one pipeline at a time, and never further
than all cuts that are left: a reader that is beyond what its writer's step explains, or a writer whose step its reader has
not read whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.cut import PipelineCut, Place
from kcontrol.core.regions.graph import RegionGraph

_NOTHING: Mapping[Place, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StepPlace:
    """Where one step left a pipeline. cut: that. bounds: of each partition that it writes, the offset beyond which there
    may be records of later steps: the first of these, as far as the log tells. unknown: of partitions that no step of those
    that are looked at has written to, the offsets between these two, of which the log does not tell what lies there."""

    cut: PipelineCut
    bounds: Mapping[Place, int]
    unknown: Mapping[Place, tuple[int, int]] = field(default_factory=dict)


def places_of(
    boundaries: Iterable[StepBoundary], asked: Mapping[Place, int], before: Mapping[Place, int] = _NOTHING
) -> tuple[StepPlace, ...]:
    """Of the steps of one pipeline, in their order, gapless, oldest first.

    asked: where each partition of its outputs ended before the log was read, by a broker that may be behind. before: where
    the last record of it lies that an older step has written, as far as these were read, gapless up to the first of the
    steps (`written_up_to`). What counts ends there until a step writes again, though markers and aborted records follow;
    without it, where the next record begins, or where the partition ended. Behind the last record that the log knows of lies
    the marker of its commit, and then whatever the log, as it was read, does not tell.
    """
    made = tuple(boundaries)
    base = {place: max(end, before.get(place, -1) + 1) for place, end in asked.items()}
    begun: dict[Place, int] = {}
    for boundary in reversed(made):
        begun |= _begun(boundary)
    ends = {**base, **begun, **before}
    positions: dict[Place, int] = {}
    cuts = []
    for boundary in made:
        positions = positions | {(each.topic, each.partition): each.to for each in boundary.inputs}
        ends = ends | {(each.topic, each.partition): each.to for each in boundary.outputs if each.records}
        cuts.append(PipelineCut(boundary.step, positions, ends))
    bounds = {place: end + 1 if place in begun else base.get(place, end + 1) for place, end in ends.items()}
    unknown = {
        place: (before[place] + 1, end)
        for place, end in base.items()
        if place in before and place not in begun
    }
    found = []
    for boundary, cut in zip(reversed(made), reversed(cuts), strict=True):
        found.append(StepPlace(cut, bounds, unknown))
        bounds = bounds | _begun(boundary)
    return tuple(reversed(found))


def _begun(boundary: StepBoundary) -> dict[Place, int]:
    return {(each.topic, each.partition): each.from_ for each in boundary.outputs if each.records}


def newest_cut(graph: RegionGraph, places: Mapping[str, Sequence[StepPlace]]) -> dict[str, StepPlace] | None:
    """By pipeline, the newest steps between which nothing is in flight; None: the steps that are given hold no cut.

    places: of each pipeline of the graph, its steps, oldest first (`places_of`).
    """
    at = {name: len(of) - 1 for name, of in places.items()}
    again = True
    while again:
        again = False
        if min(at.values(), default=-1) < 0:
            return None
        for reader in sorted(places):
            for topic in sorted(graph.inner(reader)):
                writer = graph.writer_of[topic]
                back = _must_go_back(topic, places[writer][at[writer]], places[reader][at[reader]])
                if back:
                    at[reader if back == "reader" else writer] -= 1
                    again = True
                    break
            if again:
                break
    return {name: places[name][index] for name, index in at.items()}


def _must_go_back(topic: str, wrote: StepPlace, read: StepPlace) -> str:
    positions = {place: offset for place, offset in read.cut.positions.items() if place[0] == topic}
    if any(_may_have_read_on(wrote, place, offset) for place, offset in positions.items()):
        return "reader"
    ends = {place: end for place, end in wrote.cut.ends.items() if place[0] == topic}
    return "writer" if any(positions.get(place, 0) < end for place, end in ends.items()) else ""


def _may_have_read_on(wrote: StepPlace, place: Place, offset: int) -> bool:
    known, end = wrote.unknown.get(place, (0, 0))
    return offset > wrote.bounds.get(place, 0) or known < offset < end
