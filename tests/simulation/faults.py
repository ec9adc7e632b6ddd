"""What may go wrong, one function a fault. Each says whether it could happen now, so that
only what happened is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kcontrol.core.events import (
    AddPartitions,
    CommitCheckpoint,
    CommitStep,
    InitProducer,
    PinStep,
    ProveEnd,
    ReadToEnds,
    SavePart,
)
from kcontrol.core.model import DesiredMode, FailureKind, PipelinePhase
from kcontrol.core.node.table import NodeStage
from tests.simulation.directory import Directory
from tests.simulation.fleet import Fleet
from tests.simulation.specs import CHECKPOINTS, MOST_NODES, PATIENT, simulated_spec

Fault = Callable[[Fleet, Counter[str]], bool]

MOST_COORDINATORS = 3
_MOST_PARTITIONS = 6
_SKEWS_MS = (0, 0, -3_000, 4_000)
_SET_MS = (0, -3_600_000, 3_600_000, -1_500, 31_536_000_000)
_REQUESTS: tuple[type | tuple[type, ...], ...] = (
    InitProducer,
    InitProducer,
    ReadToEnds,
    (AddPartitions, ProveEnd),
    CommitStep,
    CommitStep,
    CommitCheckpoint,
    CommitCheckpoint,
)
_STALLS_MS = (3_000, 12_000, 25_000)
_PASSING = (FailureKind.LOST, FailureKind.LOST, FailureKind.QUERY, FailureKind.BROKER, FailureKind.FENCED)
_FOR_GOOD = (FailureKind.DIGEST, FailureKind.INPUT_GONE)
_WISHES = (DesiredMode.RUNNING, DesiredMode.RUNNING, DesiredMode.PAUSED, DesiredMode.STOPPED)


def takeover_beside_a_living_coordinator(fleet: Fleet, counts: Counter[str]) -> bool:
    if len(fleet.coordinators) >= MOST_COORDINATORS:
        fleet.kill_coordinator(fleet.coordinators[0])
    fleet.assign(_SKEWS_MS[int(fleet.random.random() * len(_SKEWS_MS))])
    return True


def coordinator_killed(fleet: Fleet, counts: Counter[str]) -> bool:
    fleet.kill_coordinator(fleet.coordinators[int(fleet.random.random() * len(fleet.coordinators))])
    return True


def resigned_coordinator_assigned_again(fleet: Fleet, counts: Counter[str]) -> bool:
    return fleet.assign_again()


def coordinator_killed_with_a_request_on_its_way(fleet: Fleet, counts: Counter[str]) -> bool:
    return set_trap(fleet, "kill")


def takeover_with_a_request_on_its_way(fleet: Fleet, counts: Counter[str]) -> bool:
    return len(fleet.coordinators) < MOST_COORDINATORS and set_trap(fleet, "takeover")


def request_lost(fleet: Fleet, counts: Counter[str]) -> bool:
    return set_trap(fleet, "before")


def request_denied(fleet: Fleet, counts: Counter[str]) -> bool:
    return fleet.random.random() < 0.3 and set_trap(fleet, "denied")


def answer_lost(fleet: Fleet, counts: Counter[str]) -> bool:
    return set_trap(fleet, "after")


def set_trap(fleet: Fleet, what: str) -> bool:
    """Something goes wrong with the next request of a kind of a coordinator."""
    actor = fleet.coordinators[int(fleet.random.random() * len(fleet.coordinators))]
    actor.trap = (what, _REQUESTS[int(fleet.random.random() * len(_REQUESTS))])
    return True


def node_killed(fleet: Fleet, counts: Counter[str]) -> bool:
    number = fleet.pick_node()
    killed = fleet.kill_node(number)
    if fleet.random.random() < 0.7:
        fleet.start_node(number)
    return killed


def node_killed_while_writing(fleet: Fleet, counts: Counter[str]) -> bool:
    for number, node in enumerate(fleet.nodes):
        if node is not None and node.engine.to_write:
            fleet.kill_node(number)
            fleet.start_node(number)
            return True
    return False


def node_killed_and_its_disk_lost(fleet: Fleet, counts: Counter[str]) -> bool:
    number = fleet.pick_node()
    fleet.kill_node(number)
    fleet.directories[number] = Directory()
    fleet.start_node(number)
    return True


def node_killed_while_saving(fleet: Fleet, counts: Counter[str]) -> bool:
    for number, node in enumerate(fleet.nodes):
        if node is not None and (node.engine.saving is not None or node.state.at is NodeStage.PINNING):
            fleet.kill_node(number)
            if fleet.random.random() < 0.5:
                fleet.directories[number] = Directory()
            fleet.start_node(number)
            return True
    return False


def all_disks_lost(fleet: Fleet, counts: Counter[str]) -> bool:
    for number in range(len(fleet.nodes)):
        fleet.kill_node(number)
        fleet.directories[number] = Directory()
        fleet.start_node(number)
    return True


def saving_fails(fleet: Fleet, counts: Counter[str]) -> bool:
    node = fleet.nodes[fleet.pick_node()]
    if node is None:
        return False
    node.engine.trouble = PinStep if fleet.random.random() < 0.3 else SavePart
    return True


def node_started(fleet: Fleet, counts: Counter[str]) -> bool:
    for number, actor in enumerate(fleet.nodes):
        if actor is None:
            fleet.start_node(number)
            return True
    return False


def node_started_beside_a_living_one(fleet: Fleet, counts: Counter[str]) -> bool:
    """Both have a disk of their own: a working directory belongs to an incarnation. The old one may hear of
    it late."""
    number = fleet.pick_node()
    actor = fleet.nodes[number]
    if actor is None or fleet.zombie_nodes:
        return False
    fleet.zombie_nodes.append(actor)
    if fleet.random.random() < 0.7:
        actor.reader.deaf_until = fleet.world.events + 200
    fleet.directories[number] = fleet.directories[number].copy()
    fleet.start_node(number)
    return True


def number_of_nodes_changed(fleet: Fleet, counts: Counter[str]) -> bool:
    """Between two runs, or, by somebody who has forgotten to stop the old nodes, in the middle of one."""
    spec, nodes = fleet.world.spec, 1 + int(fleet.random.random() * MOST_NODES)
    if spec.stateful or fleet.world.assignments or nodes == spec.nodes:
        return False
    checkpoints = CHECKPOINTS.index(spec.checkpoint)
    changed = simulated_spec(
        nodes, spec.policy.clock_ms, False, checkpoints, False, spec.policy == PATIENT, fleet.stages
    )
    fleet.resize(changed, fleet.random.random() < 0.7)
    return True


def control_records_delayed(fleet: Fleet, counts: Counter[str]) -> bool:
    """To one process; boundaries still arrive."""
    actors = fleet.alive()
    actor = actors[int(fleet.random.random() * len(actors))]
    actor.reader.deaf_until = fleet.world.events + 5 + int(fleet.random.random() * 40)
    return True


def boundaries_delayed(fleet: Fleet, counts: Counter[str]) -> bool:
    """To everybody: the last stable offset stays behind for a while."""
    until = fleet.world.events + 40 + int(fleet.random.random() * 80)
    for actor in fleet.alive():
        actor.reader.blind_until = until
    return True


def boundaries_delayed_to_one_node(fleet: Fleet, counts: Counter[str]) -> bool:
    """Its reader of the log of steps is slow, while the others go on."""
    node = fleet.nodes[fleet.pick_node()]
    if node is None:
        return False
    node.reader.blind_until = fleet.world.events + 40 + int(fleet.random.random() * 80)
    return True


def published_twice(fleet: Fleet, counts: Counter[str]) -> bool:
    for actor in fleet.alive():
        if actor.effects:
            actor.run_effect(twice=True)
            return True
    return False


def compaction(fleet: Fleet, counts: Counter[str]) -> bool:
    world, draw = fleet.world, fleet.random.random
    world.compact(int(draw() * (len(world.control) + 1)))
    read_by_all = min(actor.reader.steps_at for actor in fleet.alive())
    world.compact_steps(int(draw() * (len(world.steps) + 1)), read_by_all)
    return True


def engine_failed(fleet: Fleet, counts: Counter[str]) -> bool:
    node = fleet.nodes[fleet.pick_node()]
    if node is None:
        return False
    node.engine.fail(_PASSING[int(fleet.random.random() * len(_PASSING))])
    return True


def engine_failed_for_good(fleet: Fleet, counts: Counter[str]) -> bool:
    node = fleet.nodes[fleet.pick_node()]
    if node is None or fleet.random.random() < 0.7:
        return False
    node.engine.fail(_FOR_GOOD[int(fleet.random.random() * len(_FOR_GOOD))])
    return True


def message_of_the_dead_arrives(fleet: Fleet, counts: Counter[str]) -> bool:
    if not fleet.orphans:
        return False
    fleet.deliver_orphan(counts)
    return True


def clock_jumps(fleet: Fleet, counts: Counter[str]) -> bool:
    """All stand still for a while, and the wall clock of one of them is set, forward or back."""
    fleet.world.now_ms += _STALLS_MS[int(fleet.random.random() * len(_STALLS_MS))]
    actors = fleet.alive()
    turn = fleet.world.events
    actors[turn % len(actors)].skew_ms = _SET_MS[turn // len(actors) % len(_SET_MS)]
    return True


def user_asks(fleet: Fleet, counts: Counter[str]) -> bool:
    fleet.want(_WISHES[int(fleet.random.random() * len(_WISHES))])
    return True


def user_asks_for_a_checkpoint(fleet: Fleet, counts: Counter[str]) -> bool:
    fleet.ask_for_checkpoint()
    return True


def user_resumes(fleet: Fleet, counts: Counter[str]) -> bool:
    status = fleet.coordinators[-1].state.view.status()
    if status is None or status.phase is not PipelinePhase.HALTED:
        return False
    fleet.resume()
    return True


def user_pauses_an_input(fleet: Fleet, counts: Counter[str]) -> bool:
    fleet.pause_input(fleet.pick_partition()[0], True)
    return True


def user_resumes_an_input(fleet: Fleet, counts: Counter[str]) -> bool:
    fleet.pause_input(fleet.pick_partition()[0], False)
    return True


def user_skips(fleet: Fleet, counts: Counter[str]) -> bool:
    """Not always forward, and sometimes beyond the end, which input may reach later."""
    index, partition = fleet.pick_partition()
    begin, end = fleet.world.committed(index, partition), fleet.world.input_ends[index][partition]
    fleet.skip(index, partition, begin - 1 + int(fleet.random.random() * (end - begin + 3)))
    return True


def input_expires(fleet: Fleet, counts: Counter[str]) -> bool:
    index, partition = fleet.pick_partition()
    begin, end = fleet.world.committed(index, partition), fleet.world.input_ends[index][partition]
    if begin == end:
        return False
    earliest = begin + 1 + int(fleet.random.random() * (end - begin))
    fleet.world.input_earliest[index][partition] = max(earliest, fleet.world.input_earliest[index][partition])
    return True


def partition_added(fleet: Fleet, counts: Counter[str]) -> bool:
    index, _ = fleet.pick_partition()
    if len(fleet.world.input_ends[index]) >= _MOST_PARTITIONS:
        return False
    fleet.add_partition(index)
    return True


FAULTS: tuple[Fault, ...] = (
    takeover_beside_a_living_coordinator,
    takeover_with_a_request_on_its_way,
    coordinator_killed,
    resigned_coordinator_assigned_again,
    coordinator_killed_with_a_request_on_its_way,
    request_lost,
    answer_lost,
    node_killed,
    node_killed_while_writing,
    node_killed_and_its_disk_lost,
    node_killed_while_saving,
    all_disks_lost,
    saving_fails,
    node_started,
    node_started_beside_a_living_one,
    number_of_nodes_changed,
    control_records_delayed,
    boundaries_delayed,
    boundaries_delayed_to_one_node,
    published_twice,
    compaction,
    engine_failed,
    engine_failed_for_good,
    message_of_the_dead_arrives,
    clock_jumps,
    user_asks,
    user_asks_for_a_checkpoint,
    user_resumes,
    user_pauses_an_input,
    user_resumes_an_input,
    user_skips,
    input_expires,
    partition_added,
)
