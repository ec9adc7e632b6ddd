"""What a cut is, and what can be a region."""

from __future__ import annotations

import pytest

from kcontrol.core.regions import (
    begin_drain,
    hear_answer,
    in_flight,
    is_drained,
    refused_graph,
    standing,
    waits_for,
    written_after,
    written_up_to,
)
from kcontrol.core.regions.cut import PipelineCut
from kcontrol.core.regions.graph import RegionGraph
from kcontrol.core.regions.model import DrainMode
from kcontrol.core.regions.wave import DrainAnswer, DrainOrder
from tests.simulation.draws import Draws
from tests.simulation.regions.pipelines import SimulatedPipeline, Topic

RAW, MADE = "raw", "made"
CHAIN = RegionGraph(
    {"enrich": frozenset({RAW}), "totals": frozenset({MADE})},
    {"enrich": frozenset({MADE}), "totals": frozenset({"out"})},
)
WROTE = PipelineCut(4, {(RAW, 0): 90}, {(MADE, 0): 40, (MADE, 1): 0})


@pytest.mark.parametrize(
    ("positions", "later", "words"),
    [
        ({(MADE, 0): 40}, {}, ()),
        ({(MADE, 0): 41, (MADE, 1): 0}, {(MADE, 0): 42}, ()),
        ({(MADE, 0): 42}, {(MADE, 0): 42}, ()),
        ({(MADE, 0): 39}, {}, ("written up to offset 40",)),
        ({(MADE, 0): 43}, {(MADE, 0): 42}, ("begins at 42",)),
        ({(MADE, 0): 40, (MADE, 1): 7}, {(MADE, 1): 0}, ("partition 1",)),
    ],
)
def test_nothing_is_in_flight(
    positions: dict[tuple[str, int], int], later: dict[tuple[str, int], int], words: tuple[str, ...]
) -> None:
    cuts = {"enrich": WROTE, "totals": PipelineCut(9, positions, {})}
    wrong = in_flight(CHAIN, cuts, {"enrich": later})
    assert len(wrong) == len(words)
    assert all(word in text for word, text in zip(words, wrong, strict=True))


def test_a_cut_takes_every_pipeline() -> None:
    assert "'totals' has no step" in in_flight(CHAIN, {"enrich": WROTE})[0]


def test_a_drain_begins_at_the_pipelines_that_read_only_outer_input() -> None:
    assert CHAIN.starts == ("enrich",)
    reads = {**CHAIN.reads, "other": frozenset({"list"}), "totals": frozenset({MADE, "list"})}
    mixed = RegionGraph(reads, {**CHAIN.writes, "other": frozenset({"more"})})
    assert mixed.starts == ("enrich", "other"), "who reads from within, too, waits for it"
    assert begin_drain(mixed, 3, DrainMode.ALIGNED).orders.keys() == set(mixed.starts)


def test_a_drain_of_a_chain() -> None:
    wave = begin_drain(CHAIN, 3, DrainMode.ALIGNED)
    assert wave.orders == {"enrich": DrainOrder(3, {})}
    assert hear_answer(CHAIN, wave, "enrich", DrainAnswer(2, WROTE)) == wave
    wave = hear_answer(CHAIN, wave, "enrich", DrainAnswer(3, WROTE))
    assert wave.orders["totals"] == DrainOrder(3, {(MADE, 0): 40, (MADE, 1): 0})
    assert (wave.orders["enrich"].released, waits_for(wave)) == (False, ("totals",))
    wave = hear_answer(CHAIN, wave, "totals", DrainAnswer(3))
    assert (wave.orders["enrich"].released, is_drained(CHAIN, wave)) == (True, False)
    wave = hear_answer(CHAIN, wave, "totals", DrainAnswer(3, PipelineCut(9, {(MADE, 0): 40}, {})))
    assert (wave.orders["totals"].released, is_drained(CHAIN, wave)) == (True, True)


def test_a_drain_that_stops_all() -> None:
    wave = begin_drain(CHAIN, 1, DrainMode.STOPPED)
    wave = hear_answer(CHAIN, wave, "enrich", DrainAnswer(1, WROTE))
    wave = hear_answer(CHAIN, wave, "totals", DrainAnswer(1))
    assert not wave.orders["enrich"].released
    wave = hear_answer(CHAIN, wave, "totals", DrainAnswer(1, PipelineCut(9, {}, {})))
    assert all(order.released for order in wave.orders.values())


def _stepping() -> SimulatedPipeline:
    raw = Topic(RAW, [["r1", "r2", "r3"], []])
    pipeline = SimulatedPipeline("enrich", (raw,), Topic(MADE), Draws(1))
    while sum(pipeline.positions.values()) < 3:
        pipeline.act(0)
    return pipeline


def test_where_a_pipeline_stands_follows_from_its_log_where_brokers_are_behind() -> None:
    pipeline = _stepping()
    boundaries, ends = (
        pipeline.boundaries,
        {(MADE, n): len(log) for n, log in enumerate(pipeline.output.partitions)},
    )
    written = written_up_to(boundaries)
    assert written == written_up_to(pipeline.steps) == pipeline.written
    behind = standing(boundaries[-1], {(MADE, 0): 0, (MADE, 1): 0}, {**written, ("given up", 0): 7})
    assert behind.positions == {(RAW, 0): 3, (RAW, 1): 0}
    assert behind.ends == {(MADE, 0): 0, (MADE, 1): 0} | written
    assert standing(boundaries[-1], ends, written).ends == ends
    assert written_after(boundaries, boundaries[-1].step) == {}


@pytest.mark.parametrize(
    ("reads", "writes", "word"),
    [
        ({"a": {"x"}, "b": {"y"}}, {"a": {"y"}, "b": {"z"}}, ""),
        ({"a": {"x"}, "b": {"y"}}, {"a": {"y"}, "b": {"x"}}, "circle"),
        ({"a": {"x"}}, {"a": {"x"}}, "circle"),
        ({"a": {"x"}, "b": {"x"}}, {"a": {"z"}, "b": {"z"}}, "both write"),
    ],
)
def test_what_can_be_a_region(reads: dict[str, set[str]], writes: dict[str, set[str]], word: str) -> None:
    graph = RegionGraph(
        {name: frozenset(topics) for name, topics in reads.items()},
        {name: frozenset(topics) for name, topics in writes.items()},
    )
    refused = refused_graph(graph)
    assert (refused == "") == (word == "")
    assert word in refused
