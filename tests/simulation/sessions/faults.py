"""What may go wrong around the sessions, one function a fault; each says whether it could happen now."""

from __future__ import annotations

from collections.abc import Callable

from kcontrol.core.events import PinStep, SavePart
from kcontrol.core.model import DesiredMode, FailureKind, PipelinePhase
from tests.simulation.directory import Directory
from tests.simulation.ports import BrokersStepsLog
from tests.simulation.replicas import BROKERS
from tests.simulation.sessions.fleet import MOST_COORDINATORS, SessionsFleet
from tests.simulation.sessions.processes import NodeProcess

Fault = Callable[[SessionsFleet], bool]

_MOST_BEHIND = 10
_MOST_PARTITIONS = 6
_PASSING = (FailureKind.LOST, FailureKind.LOST, FailureKind.QUERY, FailureKind.BROKER, FailureKind.FENCED)
_WISHES = (DesiredMode.RUNNING, DesiredMode.RUNNING, DesiredMode.PAUSED, DesiredMode.STOPPED)
_SET_MS = (0, -3_600_000, 3_600_000, -1_500, 31_536_000_000)
_PAUSES_S = (0.3, 2.0, 5.0, 12.0, 25.0)
_HANGS_S = (0.5, 5.0, 20.0, 60.0)

_REQUESTS = ("init", "init", "add", "write", "commit", "commit", "append", "end")
_TRAPS = ("before", "after", "sender killed", "sender killed", "takeover", "leaders move")


def _one_of(fleet: SessionsFleet, choices: tuple[float, ...]) -> float:
    return choices[int(fleet.random.random() * len(choices))]


def takeover_beside_a_living_coordinator(fleet: SessionsFleet) -> bool:
    fleet.assign()
    return True


def partition_moved(fleet: SessionsFleet) -> bool:
    """In good order: who had it hears of it soon."""
    fleet.assign()
    for old in fleet.coordinators[:-1]:
        old.stop()
    return True


def partition_confirmed(fleet: SessionsFleet) -> bool:
    keeper = fleet.coordinators[-1].keeper
    if keeper is None:
        return False
    fleet.coordinators[-1].context.run(keeper.confirm)
    return True


def coordinator_killed(fleet: SessionsFleet) -> bool:
    fleet.kill(fleet.coordinators[int(fleet.random.random() * len(fleet.coordinators))])
    return True


def coordinator_paused_and_replaced(fleet: SessionsFleet) -> bool:
    """It wakes up with old news."""
    old = fleet.coordinators[-1]
    old.paused_until = fleet.loop.time() + _one_of(fleet, _PAUSES_S)
    if len(fleet.coordinators) < MOST_COORDINATORS and fleet.random.random() < 0.7:
        fleet.assign()
    return True


def process_paused(fleet: SessionsFleet) -> bool:
    fleet.pick().paused_until = fleet.loop.time() + _one_of(fleet, _PAUSES_S)
    return True


def line_deaf(fleet: SessionsFleet) -> bool:
    """One connection of one process gets nothing through for a while."""
    process = fleet.pick()
    lines = list(process.lines.values())
    if not lines:
        return False
    lines[int(fleet.random.random() * len(lines))].deaf_until = fleet.loop.time() + _one_of(
        fleet, _PAUSES_S[:4]
    )
    return True


def agent_deaf(fleet: SessionsFleet) -> bool:
    """Faust waits for a broker that hangs."""
    fleet.coordinators[-1].line("agent").deaf_until = fleet.loop.time() + _one_of(fleet, _PAUSES_S)
    return True


def records_not_pushed(fleet: SessionsFleet) -> bool:
    """Faust goes on from a later offset, as after a rebalance."""
    agent, end = fleet.coordinators[-1].agent.reader, len(fleet.world.control)
    skipped = agent.position < end
    agent.position = max(agent.position, end - int(fleet.random.random() * 3))
    return skipped


def request_meets_trouble(fleet: SessionsFleet) -> bool:
    """The next one of a kind: it or its answer is lost, or its sender dies or is
    replaced while it is on its way."""
    draw = fleet.random.random
    fleet.network.traps[_REQUESTS[int(draw() * len(_REQUESTS))]] = _TRAPS[int(draw() * len(_TRAPS))]
    return True


def leaders_move_around_a_fence(fleet: SessionsFleet) -> bool:
    """So that the next read of the log of steps may be told of an old end."""
    fleet.network.traps["init"] = "leaders move"
    return True


def node_killed(fleet: SessionsFleet) -> bool:
    return kill(fleet, fleet.nodes[fleet.pick_node()])


def kill(fleet: SessionsFleet, node: NodeProcess | None) -> bool:
    """It, if it is there; mostly it is started again at once."""
    if node is None:
        return False
    fleet.kill(node)
    if fleet.random.random() < 0.7:
        fleet.start_node(node.number)
    return True


def node_killed_while_writing(fleet: SessionsFleet) -> bool:
    for node in fleet.nodes:
        if node is not None and node.engine is not None and node.engine.inner.to_write:
            fleet.kill(node)
            fleet.start_node(node.number)
            return True
    return False


def node_killed_and_its_disk_lost(fleet: SessionsFleet) -> bool:
    node = fleet.nodes[fleet.pick_node()]
    if node is None:
        return False
    fleet.kill(node)
    fleet.directories[node.number] = Directory()
    fleet.start_node(node.number)
    return True


def node_started_beside_a_living_one(fleet: SessionsFleet) -> bool:
    """Both have a disk of their own. The old one may hear of it late."""
    node = fleet.nodes[fleet.pick_node()]
    if node is None or node.is_over or fleet.zombies:
        return False
    fleet.zombies.append(node)
    if fleet.random.random() < 0.7:
        node.line("control").deaf_until = fleet.loop.time() + _one_of(fleet, _PAUSES_S)
    fleet.directories[node.number] = fleet.directories[node.number].copy()
    fleet.start_node(node.number)
    return True


def engine_failed(fleet: SessionsFleet) -> bool:
    node = _with_engine(fleet)
    if node is None or node.engine is None:
        return False
    node.engine.fail(_PASSING[int(fleet.random.random() * len(_PASSING))])
    return True


def engine_hangs(fleet: SessionsFleet) -> bool:
    node = _with_engine(fleet)
    if node is None or node.engine is None:
        return False
    node.engine.hangs_until = fleet.loop.time() + _one_of(fleet, _HANGS_S)
    return True


def engine_slow(fleet: SessionsFleet) -> bool:
    node = _with_engine(fleet)
    if node is None or node.engine is None:
        return False
    node.engine.pause_ms = _one_of(fleet, (1.0, 4.0, 50.0, 300.0))
    return True


def saving_fails(fleet: SessionsFleet) -> bool:
    node = _with_engine(fleet)
    if node is None or node.engine is None:
        return False
    node.engine.inner.trouble = PinStep if fleet.random.random() < 0.3 else SavePart
    return True


def _with_engine(fleet: SessionsFleet) -> NodeProcess | None:
    node = fleet.nodes[fleet.pick_node()]
    return None if node is None or node.engine is None or node.is_over else node


def compaction(fleet: SessionsFleet) -> bool:
    world, draw = fleet.world, fleet.random.random
    world.compact(int(draw() * (len(world.control) + 1)))
    logs = [log for process in fleet.alive() for log in process.readers if isinstance(log, BrokersStepsLog)]
    read_by_all = min((log.position for log in logs), default=0)
    world.compact_steps(int(draw() * (len(world.steps) + 1)), read_by_all)
    return True


def clock_set(fleet: SessionsFleet) -> bool:
    """The wall clock of a machine, forward or back."""
    fleet.pick().clock.skew_ms = int(_one_of(fleet, _SET_MS))
    return True


def transaction_ended_by_its_timeout(fleet: SessionsFleet) -> bool:
    """Kafka aborts it, and fences its owner by that."""
    if not fleet.world.added:
        return False
    fleet.world.init_producer()
    return True


def leader_elected(fleet: SessionsFleet) -> bool:
    """It may be behind, and the old one may go on answering."""
    world, draw = fleet.world, fleet.random.random
    world.replicated = True
    for replicas, end in (
        (world.control_replicas, len(world.control)),
        (world.steps_replicas, len(world.steps)),
    ):
        if draw() < 0.6:
            broker = (replicas.leader + 1 + int(draw() * (BROKERS - 1))) % BROKERS
            behind = int(draw() * (_MOST_BEHIND + 1)) if draw() < 0.7 else 0
            replicas.elect(broker, end - behind, end, old_answers=draw() < 0.5, hears=draw() < 0.7)
    return True


def user_asks(fleet: SessionsFleet) -> bool:
    fleet.want(_WISHES[int(fleet.random.random() * len(_WISHES))])
    return True


def user_asks_for_a_checkpoint(fleet: SessionsFleet) -> bool:
    fleet.ask_for_checkpoint()
    return True


def user_resumes(fleet: SessionsFleet) -> bool:
    status = fleet.world.view.status()
    if status is None or status.phase is not PipelinePhase.HALTED:
        return False
    fleet.resume()
    return True


def user_pauses_an_input(fleet: SessionsFleet) -> bool:
    fleet.pause_input(fleet.pick_partition()[0], fleet.random.random() < 0.5)
    return True


def user_skips(fleet: SessionsFleet) -> bool:
    """Not always forward, and sometimes beyond the end, which input may reach later."""
    index, partition = fleet.pick_partition()
    begin, end = fleet.world.committed(index, partition), fleet.world.input_ends[index][partition]
    fleet.skip(index, partition, begin - 1 + int(fleet.random.random() * (end - begin + 3)))
    return True


def partition_added(fleet: SessionsFleet) -> bool:
    index, _ = fleet.pick_partition()
    if len(fleet.world.input_ends[index]) >= _MOST_PARTITIONS:
        return False
    fleet.add_partition(index)
    return True


FAULTS: tuple[Fault, ...] = (
    takeover_beside_a_living_coordinator,
    partition_moved,
    partition_confirmed,
    coordinator_killed,
    coordinator_paused_and_replaced,
    process_paused,
    line_deaf,
    agent_deaf,
    records_not_pushed,
    request_meets_trouble,
    request_meets_trouble,
    leaders_move_around_a_fence,
    node_killed,
    node_killed_while_writing,
    node_killed_and_its_disk_lost,
    node_started_beside_a_living_one,
    engine_failed,
    engine_hangs,
    engine_slow,
    saving_fails,
    compaction,
    clock_set,
    transaction_ended_by_its_timeout,
    leader_elected,
    user_asks,
    user_asks_for_a_checkpoint,
    user_resumes,
    user_pauses_an_input,
    user_skips,
    partition_added,
)
