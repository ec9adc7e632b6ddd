"""What may go wrong between a step's being told to the nodes and its being made, one function a fault; as in faults.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kcontrol.core.coordinator import telling
from kcontrol.core.coordinator.telling import LOOKING_ON
from tests.simulation.coordinator_actor import CoordinatorActor
from tests.simulation.faults import MOST_COORDINATORS, Fault
from tests.simulation.fleet import Fleet


@contextmanager
def told_of_any_step() -> Iterator[None]:
    """Within, nodes are told of steps that could hold more, too: there is too little input here for others."""
    with patch.object(telling, "_is_full", lambda told: True):
        yield


def _who_has_told(fleet: Fleet) -> CoordinatorActor | None:
    told = [actor for actor in fleet.coordinators if actor.state.current.told is not None]
    return told[0] if told else None


def input_comes_while_a_step_is_made(fleet: Fleet, counts: Counter[str]) -> bool:
    """And everybody hears of it, so that there is something to tell."""
    at_it = [actor for actor in fleet.coordinators if actor.state.at in LOOKING_ON]
    if not at_it:
        return False
    fleet.input_arrives()
    for node in fleet.nodes:
        if node is not None:
            node.watch()
            while node.effects:
                node.run_effect()
    while at_it[0].read_one(prefer_steps=False):
        pass
    return True


def node_restarted_once_the_next_step_was_told(fleet: Fleet, counts: Counter[str]) -> bool:
    if _who_has_told(fleet) is None:
        return False
    number = fleet.pick_node()
    killed = fleet.kill_node(number)
    fleet.start_node(number)
    return killed


def takeover_once_the_next_step_was_told(fleet: Fleet, counts: Counter[str]) -> bool:
    if _who_has_told(fleet) is None or len(fleet.coordinators) >= MOST_COORDINATORS:
        return False
    fleet.assign(0)
    return True


def coordinator_killed_once_it_has_told_the_next_step(fleet: Fleet, counts: Counter[str]) -> bool:
    actor = _who_has_told(fleet)
    if actor is not None:
        fleet.kill_coordinator(actor)
    return actor is not None


def commit_fails_once_the_next_step_was_told(fleet: Fleet, counts: Counter[str]) -> bool:
    """Before it reaches the broker, or the answer on its way back."""
    actor = _who_has_told(fleet)
    if actor is None or actor.request is None:
        return False
    actor.trap = ("before" if fleet.random.random() < 0.5 else "after", type(actor.request))
    return True


TOLD_FAULTS: tuple[Fault, ...] = (
    input_comes_while_a_step_is_made,
    node_restarted_once_the_next_step_was_told,
    takeover_once_the_next_step_was_told,
    coordinator_killed_once_it_has_told_the_next_step,
    commit_fails_once_the_next_step_was_told,
)
