"""All processes of one pipeline, how they come and go, and whoever starts them again."""

from __future__ import annotations

from collections import Counter
from random import Random

from kcontrol.core.events import Exit
from kcontrol.core.model import DesiredMode, PipelineSpec
from tests.simulation.broker import Fenced
from tests.simulation.directory import Directory
from tests.simulation.live_layout import asked, make_ready, to_follow
from tests.simulation.sessions.loop import Process, SeededLoop
from tests.simulation.sessions.network import Network, Weather
from tests.simulation.sessions.processes import CoordinatorProcess, NodeProcess, SimulatedProcess
from tests.simulation.specs import MOST_NODES
from tests.simulation.users import Users
from tests.simulation.world import World

MOST_COORDINATORS = 3
_EXECUTORS_WRITE_ON = 0.7
_PUSHED_AGAIN = 20
"""Records that Faust may push although they were there when the partition was assigned."""


class SessionsFleet(Users):
    """The last coordinator is the one that the partition is assigned to; the others may not know."""

    def __init__(
        self, spec: PipelineSpec, random: Random, loop: SeededLoop, weather: Weather, counts: Counter[str]
    ) -> None:
        super().__init__(World(spec), random)
        self.loop = loop
        self.network = Network(loop, random, weather, counts)
        self.network.spring = self._spring
        self.counts = counts
        self.trace: list[tuple[int, str, str]] = []
        """Of every event that was decided: when, by whom, and what."""
        self.coordinators: list[CoordinatorProcess] = []
        self.nodes: list[NodeProcess | None] = [None] * spec.nodes
        self.zombies: list[NodeProcess] = []
        self.dead: list[SimulatedProcess] = []
        self.directories = [Directory() for _ in range(MOST_NODES)]
        self._incarnations = 0
        self._followed: set[int] = set()
        """Changes of the layout, by their numbers, to which the processes were fitted."""
        self.world.append(spec)
        self.want(DesiredMode.RUNNING)
        self.assign()
        for number in range(spec.nodes):
            self.start_node(number)

    def _heard(self, process: Process, event: object) -> None:
        self.trace.append((self.world.now_ms, process.name, type(event).__name__))

    def alive(self) -> list[SimulatedProcess]:
        """Every process."""
        nodes = [node for node in (*self.nodes, *self.zombies) if node is not None and not node.is_over]
        return [*self.coordinators, *nodes]

    def pick(self) -> SimulatedProcess:
        """Any of them; there is always a coordinator."""
        alive = self.alive()
        return alive[int(self.random.random() * len(alive))]

    def pick_node(self) -> int:
        """A random node's number."""
        return int(self.random.random() * len(self.nodes))

    def _name(self, kind: str) -> str:
        self._incarnations += 1
        return f"{kind}{self._incarnations}"

    def _spring(self, trap: str, sender: Process) -> None:
        """A request that somebody has set a trap for is at the broker."""
        if trap == "sender killed" and isinstance(sender, SimulatedProcess) and sender in self.alive():
            self.kill(sender)
        elif trap == "takeover":
            self.assign()
        elif trap == "leaders move":
            self.world.replicated = True
            self.world.move_leaders(self.world.events)
            self.network.notify()

    # --- coordinators ---------------------------------------------------------------------------------------

    def assign(self) -> CoordinatorProcess:
        """The partition is assigned to a new process; who had it before hears of it some time, or never."""
        if len(self.coordinators) >= MOST_COORDINATORS:
            self.kill(self.coordinators[0])
        end = len(self.world.control)
        pushed = max(0, end - int(self.random.random() * _PUSHED_AGAIN))
        process = CoordinatorProcess(self._name("coordinator"), self.world, self.network, self._heard, pushed)
        self.coordinators.append(process)
        return process

    def kill(self, process: SimulatedProcess) -> None:
        """SIGKILL: what it has sent may arrive, and its executors may write on."""
        process.is_dead = True
        self.dead.append(process)
        if isinstance(process, CoordinatorProcess):
            assigned = process is self.coordinators[-1]
            self.coordinators.remove(process)
            if assigned:
                self.assign()
            return
        assert isinstance(process, NodeProcess)
        if process in self.zombies:
            self.zombies.remove(process)
        else:
            self.nodes[process.number] = None
        engine = None if process.engine is None else process.engine.inner
        if (
            engine is not None
            and engine.to_write
            and engine.ran is not None
            and self.random.random() < _EXECUTORS_WRITE_ON
        ):
            self.network.at_broker(self.random.random(), self._write_on, process)

    def _write_on(self, process: NodeProcess) -> None:
        assert process.engine is not None
        engine = process.engine.inner
        assert engine.ran is not None
        for place in engine.to_write or ():
            try:
                self.world.write_late(place, engine.ran, engine.incarnation)
            except Fenced:
                self.counts["late rows fenced"] += 1
            except Exception as error:  # noqa: BLE001 - a violation ends the schedule
                self.loop.fail(error)

    # --- nodes ----------------------------------------------------------------------------------------------

    def start_node(self, number: int) -> None:
        """A new process for a node."""
        name = self._name(f"node{number}-")
        self.nodes[number] = NodeProcess(
            name, self.world, self.network, self._heard, number, self.directories[number]
        )

    def follow_layout(self) -> None:
        """By a layout that was changed while they ran some processes have a place at last, and some have none any more. If
        nobody is there to learn of it, whoever is new submits the definition by it."""
        world = self.world
        spec = to_follow(world)
        if spec is not None and not any(node is not None and not node.is_over for node in self.nodes):
            world.submit(spec)
        made = world.assignments[-1] if world.assignments else None
        if (
            made is None
            or not made.live
            or made.number in self._followed
            or world.spec.assignment != made.number
        ):
            return
        self._followed.add(made.number)
        self.counts["layout changed while it ran"] += 1
        self.zombies += [node for node in self.nodes[made.nodes :] if node is not None]
        self.nodes = [*self.nodes[: made.nodes], *([None] * (made.nodes - len(self.nodes)))]
        for number in made.replaced:
            before = self.nodes[number]
            if before is not None:
                self.zombies.append(before)
            self.directories[number] = Directory()
            self.start_node(number)

    def make_ready(self) -> None:
        """All processes that are to be nodes do what they are asked for."""
        request = asked(self.world)
        for node in range(0 if request is None else request.nodes):
            make_ready(self.world, node)
        self.network.notify()

    def look_after_nodes(self) -> None:
        """Start again what has ended, as a supervisor does; what was shut down, when the pipeline is wanted
        again."""
        self.follow_layout()
        desired = self.world.view.desired()
        for number, node in enumerate(self.nodes):
            ended = None if node is None else node.ended
            if node is None or (
                node.is_over and (desired is not DesiredMode.STOPPED or not _was_shut_down(ended))
            ):
                self.counts["node started"] += 1
                self.start_node(number)
        self.zombies = [node for node in self.zombies if not node.is_over]

    def all_done(self) -> bool:
        """Whether all is committed, and every node holds the last step."""
        if not self.all_committed():
            return False
        steps = len(self.world.boundaries)
        return all(node is not None and _holds(node, steps) for node in self.nodes)

    def describe(self) -> str:
        """Where everybody is."""
        world, status = self.world, self.world.view.status()
        states = [
            (c.name, c.state and c.state.at, c.state and c.state.trouble.halt) for c in self.coordinators
        ]
        nodes = [
            (n.name, n.is_over, n.state and (n.state.at, n.state.step, n.state.error))
            for n in self.nodes
            if n
        ]
        return (
            f"at {world.now_ms} {len(world.boundaries)} steps from {world.first_step}, checkpoints "
            f"{[one.step for one in world.checkpoints]}, input {world.input_ends} from "
            f"{world.input_earliest}, paused {[name for name in world.wishes if world.is_paused(name)]}, "
            f"coordinators {states}, nodes {nodes}, status {status and (status.phase, status.reason)}"
        )


def _was_shut_down(ended: Exit | None) -> bool:
    return ended is not None and ended.shut_down


def _holds(node: NodeProcess, steps: int) -> bool:
    opened = node.engine is not None and node.engine.inner.opened
    return opened and not node.is_over and node.state is not None and node.state.step == steps
