"""What may go wrong with the brokers of a replicated partition, one function a fault, as
in faults.py; see replicas.py."""

from __future__ import annotations

from collections import Counter

from kcontrol.core.events import ReadToEnds
from tests.simulation.faults import MOST_COORDINATORS, Fault, set_trap
from tests.simulation.fleet import Fleet, Process
from tests.simulation.replicas import BROKERS, Replicas

_MOST_BEHIND = 10
"""Offsets by which the high watermark of a new leader trails, at most."""


def _partitions(fleet: Fleet) -> list[tuple[Replicas, int]]:
    """The control partition, the partition of steps, or both: a broker may lead both."""
    world = fleet.world
    both = [(world.control_replicas, len(world.control)), (world.steps_replicas, len(world.steps))]
    choice = int(fleet.random.random() * 3)
    return both if choice == 2 else both[choice : choice + 1]


def _elect(fleet: Fleet, *, old_answers: bool) -> bool:
    draw = fleet.random.random
    for replicas, end in _partitions(fleet):
        broker = (replicas.leader + 1 + int(draw() * (BROKERS - 1))) % BROKERS
        behind = int(draw() * (_MOST_BEHIND + 1)) if draw() < 0.7 else 0
        replicas.elect(broker, end - behind, end, old_answers=old_answers, hears=draw() < 0.7)
    return True


def leader_elected(fleet: Fleet, counts: Counter[str]) -> bool:
    """In good order, or because the old one is dead: nobody answers in its place."""
    return _elect(fleet, old_answers=False)


def leader_deposed_that_answers(fleet: Fleet, counts: Counter[str]) -> bool:
    """It was stopped, or cut off from its peers and not from everybody else."""
    return _elect(fleet, old_answers=True)


def deposed_leader_hears_of_it(fleet: Fleet, counts: Counter[str]) -> bool:
    replicas, _ = _partitions(fleet)[0]
    deposed = replicas.deposed()
    if not deposed:
        return False
    replicas.hears(deposed[int(fleet.random.random() * len(deposed))])
    return True


def followers_fetch(fleet: Fleet, counts: Counter[str]) -> bool:
    """The high watermark of the leader comes to the end."""
    replicas, end = _partitions(fleet)[0]
    if replicas.is_calm:
        return False
    replicas.followers_fetch(end)
    return True


def process_is_told_of_a_deposed_leader(fleet: Fleet, counts: Counter[str]) -> bool:
    """It has asked a broker for metadata that is cut off itself."""
    actors = fleet.alive()
    return _tell_of_deposed(
        fleet, actors[int(fleet.random.random() * len(actors))], int(fleet.random.random() * 3)
    )


def _tell_of_deposed(fleet: Fleet, actor: Process, which: int) -> bool:
    world, reader = fleet.world, actor.reader
    routes = ((reader.control, world.control_replicas), (reader.prompt, world.control_replicas))
    route, replicas = (*routes, (reader.steps, world.steps_replicas))[which]
    deposed = replicas.deposed()
    if not deposed:
        return False
    route.epoch = replicas.beliefs[deposed[int(fleet.random.random() * len(deposed))]].epoch
    return True


def leader_moves_at_a_takeover(fleet: Fleet, counts: Counter[str]) -> bool:
    """What a broker that fails does to the rest: a coordinator that it starved is
    replaced, and the next may ask it, too."""
    if len(fleet.coordinators) >= MOST_COORDINATORS:
        fleet.kill_coordinator(fleet.coordinators[0])
    if fleet.world.steps_replicas.is_calm or fleet.random.random() < 0.3:
        _elect(fleet, old_answers=fleet.random.random() < 0.7)
    fleet.assign(0)
    actor = fleet.coordinators[-1]
    for which in range(3):
        if fleet.random.random() < 0.5:
            _tell_of_deposed(fleet, actor, which)
    if fleet.random.random() < 0.5:
        actor.trap = ("moves", ReadToEnds)
    return True


def leaders_move_before_the_ends_are_read(fleet: Fleet, counts: Counter[str]) -> bool:
    """After the fence, whose marker had brought the high watermark to the end."""
    actor = fleet.coordinators[int(fleet.random.random() * len(fleet.coordinators))]
    actor.trap = ("moves", ReadToEnds)
    return True


def transaction_ended_by_its_timeout(fleet: Fleet, counts: Counter[str]) -> bool:
    """Kafka aborts it, and fences its owner by that."""
    if not fleet.world.added:
        return False
    fleet.world.init_producer()
    return True


def boundary_written_and_not_committed(fleet: Fleet, counts: Counter[str]) -> bool:
    return set_trap(fleet, "half")


def input_is_shown_late(fleet: Fleet, counts: Counter[str]) -> bool:
    """The leader of an input's partition, too, may be new; what was shown once may be hidden
    from a process that asks anew."""
    number, draw = fleet.pick_node(), fleet.random.random
    fleet.world.hidden_until[number] = fleet.world.events + int(draw() * 60)
    return True


BROKER_FAULTS: tuple[Fault, ...] = (
    leader_elected,
    leader_deposed_that_answers,
    leader_deposed_that_answers,
    deposed_leader_hears_of_it,
    followers_fetch,
    process_is_told_of_a_deposed_leader,
    leader_moves_at_a_takeover,
    leaders_move_before_the_ends_are_read,
    transaction_ended_by_its_timeout,
    boundary_written_and_not_committed,
    input_is_shown_late,
)
