"""The newest cut that is found in logs is the newest of all that there are, looked for one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.regions import in_flight, standing, written_after, written_up_to
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


def region(
    random: Random, ticks: int, aborts: float = 0.0
) -> tuple[RegionGraph, dict[str, SimulatedPipeline]]:
    """One to three pipelines after so many ticks, each reading what it likes of the others before it, or outer input. aborts:
    how often an attempt leaves records that count for nothing, and a marker."""
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
            if aborts and random.random() < aborts:
                random.choice(one.output.partitions).extend([None] * random.randint(1, 3))
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


def truly_cuts(
    graph: RegionGraph, pipelines: dict[str, SimulatedPipeline], first: dict[str, int]
) -> list[dict[str, int]]:
    """All of them among the steps from `first` on, by what each step has really read and written."""
    found = []
    for chosen in product(*(one.boundaries[first[name] - 1 :] for name, one in pipelines.items())):
        steps = {name: boundary.step for name, boundary in zip(pipelines, chosen, strict=True)}
        cuts = {name: standing(boundary, {}, {}) for name, boundary in zip(pipelines, chosen, strict=True)}
        for name, cut in cuts.items():
            made = pipelines[name].boundaries
            cuts[name] = replace(cut, ends=written_up_to(made[: cut.step]))
        after = {name: written_after(pipelines[name].boundaries, step) for name, step in steps.items()}
        if not in_flight(graph, cuts, after):
            found.append(steps)
    return found


def is_told(
    graph: RegionGraph, pipelines: dict[str, SimulatedPipeline], first: dict[str, int], steps: dict[str, int]
) -> bool:
    """Whether logs tell of these steps that no reader has read what they don't tell of: none is beyond the last marker of a
    partition, but at its end where none of the steps that are looked at has written to it, nor before the first record."""
    for reader in pipelines:
        boundary = pipelines[reader].boundaries[steps[reader] - 1]
        for part in boundary.inputs:
            if part.topic not in graph.inner(reader):
                continue
            writer = pipelines[graph.writer_of[part.topic]]
            place = (part.topic, part.partition)
            looked_at = writer.boundaries[first[writer.name] - 1 :]
            end = len(writer.output.partitions[part.partition])
            last = written_up_to(writer.boundaries).get(place)
            if place not in written_up_to(writer.boundaries[: steps[writer.name]]):
                # Before the first record of all, nothing tells whether what lies there counts.
                begins = written_after(writer.boundaries, 0).get(place, end)
                if part.to < begins:
                    return False
            is_at_end = place not in written_up_to(looked_at) and part.to == end
            if not is_at_end and (last is None or part.to > last + 1):
                return False
    return True


@given(
    st.integers(0, 2**32),
    st.integers(1, 14),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.integers(0, 4),
)
def test_what_is_found_is_one_and_none_is_overlooked_of_which_logs_tell(
    seed: int, ticks: int, begin: list[int], unread: int
) -> None:
    """unread: so many of the oldest steps of each were not read at all; then some may be overlooked."""
    graph, pipelines = region(Random(seed), ticks, aborts=0.3)
    first = dict(zip(pipelines, begin, strict=False))
    ends = {
        name: {one.output.place(each): len(one.output.partitions[each]) for each in range(PARTITIONS)}
        for name, one in pipelines.items()
    }
    places = {}
    for name, one in pipelines.items():
        older, looked_at = one.boundaries[unread : first[name] - 1], one.boundaries[first[name] - 1 :]
        places[name] = places_of(looked_at, ends[name], written_up_to(older))
    found = newest_cut(graph, places)
    every = truly_cuts(graph, pipelines, first)
    if found is not None:
        steps = {name: one.cut.step for name, one in found.items()}
        assert steps in every
    told = [each for each in every if is_told(graph, pipelines, first, each)]
    if not unread and told:
        assert found is not None
        assert all(each[name] <= steps[name] for each in told for name in steps)


def test_pipelines_that_keep_up_have_cuts() -> None:
    graph, pipelines = region(Random(5), 40)
    assert len(pipelines) > 1
    places = {name: places_of(one.boundaries, base_of(one)) for name, one in pipelines.items()}
    assert newest_cut(graph, places) is not None
