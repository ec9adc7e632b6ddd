"""All processes of one pipeline in one world, and how they come and go."""

from __future__ import annotations

from collections import Counter
from random import Random

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import AddPartitions, CommitCheckpoint, CommitStep, InitProducer, ProveEnd
from kcontrol.core.model import DesiredMode, PipelineSpec, StepWork
from tests.simulation.broker import Fenced, NotTheEnd
from tests.simulation.coordinator_actor import CoordinatorActor
from tests.simulation.directory import Directory
from tests.simulation.live_layout import ENDLESS_MS, asked, make_ready, to_follow
from tests.simulation.node_actor import NodeActor
from tests.simulation.requests import perform, publish
from tests.simulation.specs import MOST_NODES
from tests.simulation.users import Users
from tests.simulation.world import World, twin_of

Process = CoordinatorActor | NodeActor
Orphan = (
    InitProducer
    | AddPartitions
    | CommitStep
    | CommitCheckpoint
    | ProveEnd
    | tuple[StepWork, tuple[tuple[int, int], ...], int]
)
"""A request of a dead coordinator, or what a dead node's executors have still to write, that may yet
arrive."""


class Fleet(Users):
    """The last coordinator is the one that the pipeline is assigned to; the others may not know."""

    def __init__(self, spec: PipelineSpec, random: Random, stages: int = 1) -> None:
        """stages: of a step wherever there are several nodes."""
        super().__init__(World(spec), random)
        self.stages = stages
        self.coordinators: list[CoordinatorActor] = []
        self.nodes: list[NodeActor | None] = [None] * spec.nodes
        self.zombie_nodes: list[NodeActor] = []
        self.directories = [Directory() for _ in range(MOST_NODES)]
        self.orphans: list[Orphan] = []
        self.incarnations = 0
        self.world.append(spec)
        self.want(DesiredMode.RUNNING)
        self.assign(0)
        for number in range(spec.nodes):
            self.start_node(number)

    def clone(self, random: Random) -> Fleet:
        """The same fleet in a world of its own, with another future. Only of a fleet without zombies and
        orphans."""
        assert not self.zombie_nodes
        assert not self.orphans
        twin = twin_of(self)
        twin.random = random
        twin.world = world = self.world.clone()
        twin.coordinators = [actor.clone(world) for actor in self.coordinators]
        twin.directories = [directory.copy() for directory in self.directories]
        twin.nodes = [
            None if node is None else node.clone(world, directory, random)
            for node, directory in zip(self.nodes, twin.directories, strict=False)
        ]
        twin.zombie_nodes = []
        twin.orphans = []
        return twin

    def alive(self) -> list[Process]:
        """Every process."""
        return [*self.coordinators, *(node for node in self.nodes if node is not None), *self.zombie_nodes]

    def pick_node(self) -> int:
        """A random node's number."""
        return int(self.random.random() * len(self.nodes))

    def assign(self, skew_ms: int) -> None:
        """A new coordinator process is told that the pipeline is its own. Its clock differs by `skew_ms`."""
        self.incarnations += 1
        actor = CoordinatorActor(self.world, f"c{self.incarnations}", skew_ms)
        self.coordinators.append(actor)
        actor.start()

    def assign_again(self) -> bool:
        """The coordinator has resigned, but the pipeline is still assigned to it."""
        actor = self.coordinators[-1]
        if actor.state.at is not State.RESIGNED or actor.effects or actor.request is not None:
            return False
        self.incarnations += 1
        actor.uuid = f"c{self.incarnations}"
        actor.start()
        return True

    def start_node(self, number: int) -> None:
        """A new process for a node. It goes on by the newest layout, if that was changed while the pipeline ran."""
        self.follow_layout()
        if number >= len(self.nodes):
            return
        self.incarnations += 1
        actor = NodeActor(self.world, number, self.incarnations, self.directories[number], self.random)
        self.nodes[number] = actor
        actor.start()

    def bury(self, actor: NodeActor) -> None:
        """A process has ended itself; whoever watches it starts the node again."""
        self.follow_layout()
        if actor in self.zombie_nodes:
            self.zombie_nodes.remove(actor)
        else:
            self.start_node(actor.number)

    def kill_coordinator(self, actor: CoordinatorActor) -> None:
        """SIGKILL; its request may still be on its way, and what it published may be there in part."""
        self.coordinators.remove(actor)
        if actor.effects and self.random.random() < 0.5:
            effect = actor.effects[0]
            publish(
                self.world,
                effect,
                count=int(self.random.random() * (len(effect.records) + len(effect.forget) + 1)),
            )
        request = actor.request
        if isinstance(request, InitProducer | AddPartitions | CommitStep | CommitCheckpoint | ProveEnd) and (
            actor.doomed or self.random.random() < 0.6
        ):
            self.orphans.append(request)
        if not self.coordinators:
            self.assign(0)

    def kill_node(self, number: int) -> bool:
        """SIGKILL; its executors may write on for a while."""
        actor = self.nodes[number]
        if actor is None:
            return False
        self.nodes[number] = None
        if actor.engine.to_write and actor.engine.ran is not None:
            self.orphans.append((actor.engine.ran, tuple(actor.engine.to_write), actor.incarnation))
        return True

    def deliver_orphan(self, counts: Counter[str]) -> None:
        """What the dead have sent arrives."""
        orphan = self.orphans.pop(int(self.random.random() * len(self.orphans)))
        try:
            if isinstance(orphan, tuple):
                work, to_write, incarnation = orphan
                for place in to_write:
                    self.world.write_late(place, work, incarnation)
            else:
                perform(self.world, orphan, self.world.now_ms)
        except Fenced:
            counts["late message fenced"] += 1
        except NotTheEnd:
            counts["late boundary not at the end"] += 1

    def follow_layout(self) -> bool:
        """The first of the processes that learn of it submits the definition by a layout that was changed while they ran."""
        spec = to_follow(self.world)
        if spec is None:
            return False
        self.resize(spec, stopped=False)
        for number in self.world.assignments[-1].replaced:
            self._replace(number)
        return True

    def _replace(self, number: int) -> None:
        """Another process, on another host, is the node from now on."""
        before = self.nodes[number]
        if before is not None:
            self.zombie_nodes.append(before)
        self.directories[number] = Directory()
        self.start_node(number)

    def make_ready(self) -> None:
        """All processes that are to be nodes do what they are asked for; the last one may be none that there is."""
        request = asked(self.world)
        if request is not None:
            for node in range(request.nodes - (request.timeout_ms == ENDLESS_MS)):
                make_ready(self.world, node)

    def resize(self, spec: PipelineSpec, stopped: bool) -> None:
        """Another number of nodes is submitted and started. stopped: nobody is at work meanwhile, as it
        should be."""
        for number in range(len(self.nodes)):
            if stopped:
                self.kill_node(number)
        self.world.submit(spec)
        self.zombie_nodes += [node for node in self.nodes[spec.nodes :] if node is not None]
        self.nodes = [*self.nodes[: spec.nodes], *([None] * (spec.nodes - len(self.nodes)))]
        for number, node in enumerate(self.nodes):
            if node is None:
                self.start_node(number)

    def all_done(self) -> bool:
        """Whether all is committed, and every node holds the last step."""
        steps = len(self.world.boundaries)
        if not self.all_committed():
            return False
        return all(
            node is not None and node.engine.opened and node.state.step == steps for node in self.nodes
        )

    def describe(self) -> str:
        """Where everybody is."""
        world = self.world
        states = [
            (c.uuid, c.state.at, c.state.trouble.failure, c.state.trouble.halt, c.state.checkpointing.failure)
            for c in self.coordinators
        ]
        nodes = [(n.state.at, n.state.step, n.state.error) for n in self.nodes if n is not None]
        saved = [one.step for one in world.checkpoints]
        return (
            f"{len(world.boundaries)} steps from {world.first_step}, checkpoints {saved}, "
            f"input {world.input_ends} from {world.input_earliest}, "
            f"paused {[name for name in world.wishes if world.is_paused(name)]}, "
            f"coordinators {states}, nodes {nodes}"
        )
