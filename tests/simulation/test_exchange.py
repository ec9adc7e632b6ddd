"""Rows that are exchanged within a step: what a node may die of, in every stage, and who is needed for a replay."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kcontrol.core.node.table import NodeStage
from kcontrol.core.step.exchange import stages_of
from tests.simulation.directory import Directory
from tests.simulation.fleet import Fleet
from tests.simulation.schedule import (
    Schedule,
    run_schedule,
    with_denials,
    with_epochs,
    with_replicas,
    with_stages,
)
from tests.simulation.specs import simulated_spec

_MOST_EVENTS = 30_000
_DEATHS = [
    (stages, number, at, stage)
    for stages in (2, 3)
    for number in range(3)
    for at, stage in (
        (NodeStage.WRITING, 0),
        *((NodeStage.AWAITING, stage) for stage in range(stages - 1)),
        *((NodeStage.RECEIVING, stage) for stage in range(1, stages)),
        (NodeStage.WRITTEN, stages - 1),
    )
]


def begun(nodes: int, stages: int, seed: int) -> tuple[Fleet, Schedule]:
    """A fleet that has made two steps."""
    random = Random(seed)
    fleet = Fleet(simulated_spec(nodes, 0, False, 0, stages=stages), random, stages)
    schedule = Schedule(fleet, Counter())
    go_on(schedule, lambda: len(fleet.world.boundaries) >= 2)
    return fleet, schedule


def go_on(schedule: Schedule, holds: object) -> None:
    """Until it holds, with nothing wrong."""
    assert callable(holds)
    for _ in range(_MOST_EVENTS):
        if holds():
            return
        schedule.nothing_wrong()
    raise AssertionError(f"it did not come to that: {schedule.fleet.describe()}")


@pytest.mark.parametrize(("stages", "number", "at", "stage"), _DEATHS)
def test_a_node_may_die_in_any_stage(stages: int, number: int, at: NodeStage, stage: int) -> None:
    """What is committed then is whole, as ever, and the pipeline goes on."""
    fleet, schedule = begun(3, stages, 1)
    assert stages_of(fleet.world.spec) == stages

    def is_there() -> bool:
        node = fleet.nodes[number]
        return node is not None and node.state.at is at and node.state.stage == stage

    go_on(schedule, is_there)
    steps = len(fleet.world.boundaries)
    fleet.kill_node(number)
    fleet.start_node(number)
    fleet.input_arrives()
    go_on(schedule, lambda: len(fleet.world.boundaries) >= steps + 2)


@pytest.mark.parametrize("stages", [2, 3])
def test_a_coordinator_may_go_between_two_stages(stages: int) -> None:
    fleet, schedule = begun(3, stages, 2)
    go_on(
        schedule,
        lambda: any(node is not None and node.state.at is NodeStage.AWAITING for node in fleet.nodes),
    )
    steps = len(fleet.world.boundaries)
    fleet.kill_coordinator(fleet.coordinators[-1])
    go_on(schedule, lambda: len(fleet.world.boundaries) >= steps + 2)


@pytest.mark.parametrize("stages", [2, 3])
def test_a_node_replays_without_any_other_node(stages: int) -> None:
    """With all disks lost and nobody else there: what it was sent is in the log of the exchange."""
    fleet, schedule = begun(3, stages, 3)
    go_on(schedule, lambda: len(fleet.world.boundaries) >= 6)
    for number in range(3):
        fleet.kill_node(number)
        fleet.directories[number] = Directory()
    fleet.start_node(1)
    steps = len(fleet.world.boundaries)

    def is_back() -> bool:
        node = fleet.nodes[1]
        return node is not None and node.engine.opened and node.state.step == steps

    go_on(schedule, is_back)
    assert len(fleet.world.boundaries) == steps
    assert any(boundary.exchanges for boundary in fleet.world.boundaries)


def test_one_node_exchanges_nothing() -> None:
    spec = simulated_spec(1, 0, False, 0, stages=3)
    assert (spec.exchanges, spec.stages, spec.watermarks) == ((), (), ())


def test_seeds_of_a_sample_have_steps_of_every_number_of_stages() -> None:
    found = {(seed % 3, with_stages(seed)) for seed in range(96)}
    assert found >= {(nodes, stages) for nodes in range(3) for stages in (1, 2, 3)}
    mixed = {(with_denials(s), with_replicas(s), with_epochs(s), with_stages(s)) for s in range(96)}
    assert len(mixed) == 2 * 2 * 2 * 3


@pytest.mark.parametrize("seed", [8, 26])
def test_a_seed_with_stages_is_a_schedule(seed: int) -> None:
    first = run_schedule(seed, Counter(), stages=2)
    run_schedule(seed + 1, Counter(), stages=3)
    again = run_schedule(seed, Counter(), stages=2)
    assert first.world.control == again.world.control
    assert first.world.exchanged.chunks == again.world.exchanged.chunks
