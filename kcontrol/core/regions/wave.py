"""A drain as a wave that goes down the graph of a region, and in which almost nobody waits.

A pipeline that reads nothing from within the region is held at the boundary where it stands. The ends of its outputs are
then limits for its readers: *not beyond these before you are there*. As soon as all of them have taken note of that, it
may go on. A reader that has come to all of its limits is held in turn, and its own readers get theirs. So each pipeline is
held for one exchange of messages (`ALIGNED`); or until all have come to their cut (`STOPPED`), where something takes part
that can't be given limits.

Orders are levels, not edges: who hears one twice, late, or only the last of several, does the same. What a pipeline says
of another drain counts for nothing, and the cut that it has said first stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.regions.changed import changed
from kcontrol.core.regions.cut import PipelineCut, Place
from kcontrol.core.regions.graph import RegionGraph
from kcontrol.core.regions.model import DrainMode


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """What one pipeline is to do in a drain. limits: it reads no further than these, and makes no step once it has come to
    all of them; {}: none at all. Of a topic that they name, it reads nothing of partitions that they don't. released: it
    goes on as if there were no order."""

    number: int
    limits: Mapping[Place, int]
    released: bool = False


@dataclass(frozen=True, slots=True)
class DrainAnswer:
    """What one pipeline says: that it goes by the order of this drain, and where it stands if it has come to all limits."""

    number: int
    cut: PipelineCut | None = None


@dataclass(frozen=True)
class DrainWave:
    """One drain. noted: the pipelines that go by their orders. cuts: where those stand, or stood, that have come to their
    limits."""

    number: int
    mode: DrainMode
    orders: Mapping[str, DrainOrder] = field(default_factory=dict)
    noted: frozenset[str] = frozenset()
    cuts: Mapping[str, PipelineCut] = field(default_factory=dict)


def begin_drain(graph: RegionGraph, number: int, mode: DrainMode) -> DrainWave:
    """Everybody who reads only outer input is held."""
    return advance(graph, DrainWave(number, mode))


def hear_answer(graph: RegionGraph, wave: DrainWave, pipeline: str, answer: DrainAnswer) -> DrainWave:
    """The drain after a pipeline has said something, whatever it is about."""
    if answer.number != wave.number or pipeline not in wave.orders:
        return wave
    cuts = wave.cuts
    if answer.cut is not None and pipeline not in cuts:
        cuts = {**cuts, pipeline: answer.cut}
    elif pipeline in wave.noted:
        return wave
    return advance(graph, changed(wave, noted=wave.noted | {pipeline}, cuts=cuts))


def advance(graph: RegionGraph, wave: DrainWave) -> DrainWave:
    """With the orders that follow from what is known."""
    orders = dict(wave.orders)
    for name in graph.reads:
        writers = graph.writers(name)
        if name not in orders and writers <= wave.cuts.keys():
            orders[name] = DrainOrder(wave.number, _limits(graph, wave, name))
        if name in orders and not orders[name].released and _may_go_on(graph, wave, name):
            orders[name] = replace(orders[name], released=True)
    return changed(wave, orders=orders)


def _limits(graph: RegionGraph, wave: DrainWave, pipeline: str) -> dict[Place, int]:
    read = graph.inner(pipeline)
    return {
        place: end
        for writer in graph.writers(pipeline)
        for place, end in wave.cuts[writer].ends.items()
        if place[0] in read
    }


def _may_go_on(graph: RegionGraph, wave: DrainWave, pipeline: str) -> bool:
    if pipeline not in wave.cuts:
        return False
    if wave.mode is DrainMode.STOPPED:
        return is_drained(graph, wave)
    return graph.readers(pipeline) <= wave.noted


def is_drained(graph: RegionGraph, wave: DrainWave) -> bool:
    """Whether all have come to their cut. Whether that is one, `in_flight` says."""
    return wave.cuts.keys() == graph.reads.keys()


def waits_for(wave: DrainWave) -> tuple[str, ...]:
    """The pipelines that have an order and have not come to their limits."""
    return tuple(sorted(wave.orders.keys() - wave.cuts.keys()))
