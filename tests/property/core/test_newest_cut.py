"""The newest cut that is found in logs is the newest of all that there are, looked for one by one."""

from __future__ import annotations

from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.regions import in_flight
from kcontrol.core.regions.cut import Place
from kcontrol.core.regions.graph import RegionGraph
from kcontrol.core.regions.newest import StepPlace, newest_cut, places_of
from tests.simulation.regions.pipelines import PARTITIONS, SimulatedPipeline, Topic


def base_of(pipeline: SimulatedPipeline) -> dict[Place, int]:
    """Where those partitions end that nothing was written to."""
    wrote = {
        (each.topic, each.partition) for one in pipeline.boundaries for each in one.outputs if each.records
    }
    every = {pipeline.output.place(each): len(pipeline.output.partitions[each]) for each in range(PARTITIONS)}
    return {place: end for place, end in every.items() if place not in wrote}


def region(random: Random, ticks: int) -> tuple[RegionGraph, dict[str, SimulatedPipeline]]:
    """One to three pipelines after so many ticks, each reading what it likes of the others before it, or outer input."""
    outer, found = Topic("outer"), dict[str, SimulatedPipeline]()
    for number in range(random.randint(1, 3)):
        inner = [one.output for one in found.values() if random.random() < 0.7]
        name = f"p{number}"
        found[name] = SimulatedPipeline(
            name, tuple(inner or [outer]), Topic(f"t{number}"), random, random.choice((1, 1, 3))
        )
    for tick in range(ticks):
        outer.partitions[random.randrange(2)].append(f"r{tick}")
        for one in random.sample(list(found.values()), len(found)):
            one.act(tick)
    reads = {name: frozenset(topic.name for topic in one.inputs) for name, one in found.items()}
    return RegionGraph(reads, {name: frozenset({one.output.name}) for name, one in found.items()}), found


def cuts_one_by_one(graph: RegionGraph, places: dict[str, tuple[StepPlace, ...]]) -> list[dict[str, int]]:
    found = []
    for chosen in product(*places.values()):
        by_name = dict(zip(places, chosen, strict=True))
        cuts = {name: one.cut for name, one in by_name.items()}
        if not in_flight(graph, cuts, {name: one.bounds for name, one in by_name.items()}):
            found.append({name: cut.step for name, cut in cuts.items()})
    return found


@given(st.integers(0, 2**32), st.integers(1, 14), st.integers(0, 4))
def test_the_newest_cut_is_the_newest_of_all(seed: int, ticks: int, dropped: int) -> None:
    graph, pipelines = region(Random(seed), ticks)
    places = {name: places_of(one.boundaries, base_of(one))[dropped:] for name, one in pipelines.items()}
    every = cuts_one_by_one(graph, places)
    found = newest_cut(graph, places)
    if found is None:
        assert every == []
        return
    steps = {name: one.cut.step for name, one in found.items()}
    assert steps in every
    assert all(each[name] <= step for each in every for name, step in steps.items())


def test_pipelines_that_keep_up_have_cuts() -> None:
    graph, pipelines = region(Random(5), 40)
    assert len(pipelines) > 1
    places = {name: places_of(one.boundaries, base_of(one)) for name, one in pipelines.items()}
    assert newest_cut(graph, places) is not None
