"""One schedule: a seeded choice of what happens next, over and over, and then a world without faults that must make progress.

Everything random comes from one generator, so a seed is a schedule for ever. Each schedule has a random choice of the faults
(swarm testing, Groce et al. 2012): a few faults that come often find what all of them together would hide.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from kcontrol.core.coordinator_table import State
from kcontrol.core.events import AddPartitions, CommitStep, InitProducer, Publish
from kcontrol.core.model import Desired, DesiredMode, FailureKind, PipelinePhase, Resume, StepWork
from tests.simulation.actors import CoordinatorActor, NodeActor, perform, publish
from tests.simulation.engine import Directory
from tests.simulation.invariants import Violation
from tests.simulation.specs import PIPELINE, simulated_spec
from tests.simulation.world import Fenced, World

EVENTS = 60
"""Of the part with faults."""
_PROGRESS_ROUNDS = 200
_LIVING_COORDINATORS = 3
_ROUND_EVENTS = 3_000
_LATE_HALTS = 2
"""A fault from before may still halt the pipeline, and another one once it is resumed; then there are no more."""
_ENGINE_FAULTS = (
    FailureKind.LOST,
    FailureKind.LOST,
    FailureKind.LOST,
    FailureKind.QUERY,
    FailureKind.BROKER,
    FailureKind.FENCED,
    FailureKind.DIGEST,
    FailureKind.INPUT_GONE,
)
_MODES = (DesiredMode.RUNNING, DesiredMode.RUNNING, DesiredMode.PAUSED, DesiredMode.STOPPED)
Orphan = InitProducer | AddPartitions | CommitStep | tuple[StepWork, list[tuple[int, int]], int]


class Schedule:
    """A world, its processes, and a generator that decides."""

    def __init__(self, seed: int, nodes: int, counts: Counter[str]) -> None:
        self.random = Random(seed)
        self.counts = counts
        draw = self.random.random
        self.world = World(simulated_spec(nodes, 500 if draw() < 0.1 else 0, draw() < 0.2))
        self.faults = [fault for fault in _FAULTS if draw() < 0.4] or list(_FAULTS)
        self.fault_rate = 0.15 * draw()
        self.broker_rate = 0.3 * draw() if draw() < 0.3 else 0.0
        self.twice_rate = 0.3 * draw() if draw() < 0.2 else 0.0
        self.burst = 1 + int(draw() * 8)
        self.nodes: list[NodeActor | None] = [None] * nodes
        self.zombie_nodes: list[NodeActor] = []
        self.directories = [Directory() for _ in range(nodes)]
        self.coordinators: list[CoordinatorActor] = []
        self.orphans: list[Orphan] = []
        self.lives = 0
        self.requests = 0
        self.world.append(self.world.spec)
        self.want(DesiredMode.RUNNING)
        self.assign()
        for number in range(nodes):
            self.start_node(number)

    # --- processes come and go --------------------------------------------------------------------------------------------

    def assign(self) -> None:
        """A new coordinator process is told that the pipeline is its own; older ones may still believe that it is theirs."""
        self.lives += 1
        skew_ms = (0, 0, -3000, 4000)[int(self.random.random() * 4)]
        actor = CoordinatorActor(self.world, f"c{self.lives}", skew_ms)
        self.coordinators.append(actor)
        actor.start()

    def start_node(self, number: int) -> None:
        """A new process for a node; an older one may still run, unaware."""
        self.lives += 1
        actor = NodeActor(self.world, number, self.lives, self.directories[number], self.random)
        self.nodes[number] = actor
        actor.start()

    def want(self, mode: DesiredMode) -> None:
        """The user's wish."""
        self.requests += 1
        self.world.append(Desired(PIPELINE, mode, f"r{self.requests}"))

    def resume(self) -> None:
        """The user has looked at the halt."""
        self.requests += 1
        self.world.append(Resume(PIPELINE, f"r{self.requests}"))

    def kill_coordinator(self, actor: CoordinatorActor) -> None:
        """SIGKILL; the request that it sent last may still be on its way."""
        self.coordinators.remove(actor)
        if actor.effects and self.random.random() < 0.6:
            effect = actor.effects[0]
            if isinstance(effect, Publish):
                publish(self.world, effect, count=int(self.random.random() * (len(effect.records) + len(effect.forget) + 1)))
            elif isinstance(effect, InitProducer | AddPartitions | CommitStep):
                self.orphans.append(effect)

    # --- what can happen ------------------------------------------------------------------------------------------------------

    def run(self, events: int = EVENTS) -> None:
        """So many events with faults, then without until there is progress. Raises Violation."""
        draw, world = self.random.random, self.world
        end = world.events + events
        for _ in range(events * 4):
            choice = draw()
            if choice < self.fault_rate:
                fault = self.faults[int(draw() * len(self.faults))]
                if fault(self):
                    self.counts[f"fault: {fault.__name__.strip('_').replace('_', ' ')}"] += 1
            elif choice < self.fault_rate + 0.1:
                self._outside()
            else:
                self._process()
            if world.events >= end:
                break
        self._settle()

    def _outside(self) -> None:
        """Time passes, or input arrives."""
        draw = self.random.random
        if draw() < 0.6:
            ends = self.world.input_ends[0]
            ends[int(draw() * len(ends))] += 1 + int(draw() * 3)
            return
        self.world.now_ms += int(draw() * 300)
        for actor in self._alive():
            if draw() < 0.5:
                actor.tick()

    def _alive(self) -> list[CoordinatorActor | NodeActor]:
        return [*self.coordinators, *(node for node in self.nodes if node is not None), *self.zombie_nodes]

    def _process(self) -> None:
        """One process does one thing, or several."""
        draw = self.random.random
        actors = self._alive()
        actor = actors[int(draw() * len(actors))]
        for _ in range(1 + int(draw() * self.burst)):
            if not self._act(actor, int(draw() * 5)):
                return

    def _act(self, actor: CoordinatorActor | NodeActor, first: int) -> bool:
        """The first possible of its actions, counted from a random one."""
        if isinstance(actor, NodeActor) and actor.exited:
            self._bury(actor)
            return False
        for turn in range(first, first + 5):
            match turn % 5:
                case 0 | 1 if actor.read_one(turn % 2 == 0):
                    return True
                case 2 if actor.effects:
                    self._effect(actor)
                    return True
                case 3 if actor.take_answer():
                    return True
                case 4 if isinstance(actor, NodeActor) and (actor.engine.advance() or actor.watch()):
                    return True
        return False

    def _effect(self, actor: CoordinatorActor | NodeActor) -> None:
        draw = self.random.random
        if isinstance(actor.effects[0], Publish):
            twice = self.twice_rate > 0 and draw() < self.twice_rate
            if twice:
                self.counts["fault: published twice"] += 1
            actor.run_effect(twice=twice)
        elif isinstance(actor, CoordinatorActor) and self.broker_rate > 0 and draw() < self.broker_rate:
            when = "before" if draw() < 0.4 else "after"
            self.counts[f"fault: broker fault {when} {type(actor.effects[0]).__name__}"] += 1
            actor.run_effect(fault=when)
        else:
            actor.run_effect()

    def _bury(self, actor: NodeActor) -> None:
        """A process that ended itself; whoever watches it starts the node again."""
        self.counts["node replaced" if actor.replaced else "node shut down"] += 1
        if actor in self.zombie_nodes:
            self.zombie_nodes.remove(actor)
        else:
            self.start_node(actor.number)

    # --- faults ---------------------------------------------------------------------------------------------------------------

    def _takeover_beside_a_living_coordinator(self) -> bool:
        if len(self.coordinators) >= _LIVING_COORDINATORS:
            self.kill_coordinator(self.coordinators[0])
        self.assign()
        return True

    def _coordinator_killed(self) -> bool:
        self.kill_coordinator(self.coordinators[int(self.random.random() * len(self.coordinators))])
        if not self.coordinators:
            self.assign()
        return True

    def _resigned_coordinator_assigned_again(self) -> bool:
        actor = self.coordinators[-1]
        if actor.state.at is not State.RESIGNED or actor.effects:
            return False
        actor.uuid += "+"
        actor.start()
        return True

    def _node_killed(self) -> bool:
        """Its executors may write on for a while."""
        number = int(self.random.random() * len(self.nodes))
        actor = self.nodes[number]
        if actor is None:
            return False
        self.nodes[number] = None
        if actor.engine.to_write and actor.engine.ran is not None:
            self.orphans.append((actor.engine.ran, actor.engine.to_write, actor.incarnation))
        if self.random.random() < 0.7:
            self.start_node(number)
        return True

    def _node_killed_and_its_disk_lost(self) -> bool:
        number = int(self.random.random() * len(self.nodes))
        self.directories[number] = Directory()
        self.start_node(number)
        return True

    def _node_started(self) -> bool:
        for number, actor in enumerate(self.nodes):
            if actor is None:
                self.start_node(number)
                return True
        return False

    def _node_started_beside_a_living_one(self) -> bool:
        """Both have a disk of their own: a working directory belongs to a life."""
        number = int(self.random.random() * len(self.nodes))
        actor = self.nodes[number]
        if actor is None or self.zombie_nodes:
            return False
        self.zombie_nodes.append(actor)
        self.directories[number] = self.directories[number].copy()
        self.start_node(number)
        return True

    def _compaction(self) -> bool:
        self.world.compact(int(self.random.random() * (len(self.world.control) + 1)))
        return True

    def _engine_fault(self) -> bool:
        node = self.nodes[int(self.random.random() * len(self.nodes))]
        if node is None:
            return False
        kind = _ENGINE_FAULTS[int(self.random.random() * len(_ENGINE_FAULTS))]
        if kind in (FailureKind.DIGEST, FailureKind.INPUT_GONE) and self.random.random() < 0.5:
            return False
        node.engine.fail(kind)
        return True

    def _late_message_of_the_dead(self) -> bool:
        if not self.orphans:
            return False
        self._orphan()
        return True

    def _stall(self) -> bool:
        self.world.now_ms += (3_000, 12_000, 25_000)[int(self.random.random() * 3)]
        return True

    def _user_asks(self) -> bool:
        self.want(_MODES[int(self.random.random() * len(_MODES))])
        return True

    def _user_resumes(self) -> bool:
        status = self.coordinators[-1].state.view.status()
        if status is None or status.phase is not PipelinePhase.HALTED:
            return False
        self.resume()
        return True

    def _orphan(self) -> None:
        orphan = self.orphans.pop(int(self.random.random() * len(self.orphans)))
        try:
            if isinstance(orphan, tuple):
                work, to_write, incarnation = orphan
                for output, partition in to_write:
                    self.world.write(output, partition, 1, work.step, work.token, incarnation)
            else:
                perform(self.world, orphan, self.world.now_ms)
        except Fenced:
            self.counts["late message fenced"] += 1

    # --- and then all is well ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """No more faults: the pipeline must commit all input that there is, within a bounded number of rounds."""
        while self.orphans:
            self._orphan()
        for zombie in self.coordinators[:-1]:
            while zombie.effects:
                zombie.run_effect()
        self.coordinators = self.coordinators[-1:]
        self.zombie_nodes = []
        self.want(DesiredMode.RUNNING)
        self.world.input_ends[0][0] += 1
        halts = 0
        for _ in range(_PROGRESS_ROUNDS):
            self._round()
            if self.coordinators[0].state.at is State.HALTED and halts < _LATE_HALTS:
                halts += 1
                self.resume()
            if self._all_done():
                return
        raise Violation("without faults the pipeline makes progress", self.describe())

    def _round(self) -> None:
        """Every process does all it can; then time passes."""
        coordinator = self.coordinators[0]
        if coordinator.state.at is State.RESIGNED and not coordinator.effects:
            coordinator.uuid += "'"
            coordinator.start()
        for number, node in enumerate(self.nodes):
            if node is None or node.exited:
                self.start_node(number)
        actors = self._alive()
        end = self.world.events + _ROUND_EVENTS
        busy = True
        while busy:
            busy = False
            for actor in actors:
                while self._only(actor):
                    busy = True
                    if self.world.events > end:
                        raise Violation("without faults the processes come to rest", self.describe())
        self.world.now_ms += 200
        for actor in actors:
            actor.tick()

    def _only(self, actor: CoordinatorActor | NodeActor) -> bool:
        if isinstance(actor, CoordinatorActor):
            return actor.run_effect() or actor.read_one(True) or actor.take_answer()
        if actor.exited:
            return False
        return actor.run_effect() or actor.read_one(True) or actor.take_answer() or actor.engine.advance() or actor.watch()

    def _all_done(self) -> bool:
        world = self.world
        if not world.steps:
            return False
        ends = [piece.to for piece in world.steps[-1].record.inputs]  # type: ignore[union-attr]
        if ends != world.input_ends[0]:
            return False
        return all(node is not None and node.state.step == len(world.steps) for node in self.nodes)

    def describe(self) -> str:
        """Where everybody is."""
        states = [(c.uuid, c.state.at, c.state.failure, c.state.halt) for c in self.coordinators]
        nodes = [(n.state.at, n.state.step, n.state.error) for n in self.nodes if n is not None]
        return f"{len(self.world.steps)} steps, input {self.world.input_ends}, coordinators {states}, nodes {nodes}"


_FAULTS = (
    Schedule._takeover_beside_a_living_coordinator,
    Schedule._coordinator_killed,
    Schedule._resigned_coordinator_assigned_again,
    Schedule._node_killed,
    Schedule._node_killed_and_its_disk_lost,
    Schedule._node_started,
    Schedule._node_started_beside_a_living_one,
    Schedule._compaction,
    Schedule._engine_fault,
    Schedule._late_message_of_the_dead,
    Schedule._stall,
    Schedule._user_asks,
    Schedule._user_resumes,
)


def run_schedule(seed: int, counts: Counter[str]) -> Schedule:
    """One schedule, of one or two nodes. Raises Violation."""
    schedule = Schedule(seed, 1 + seed % 2, counts)
    try:
        schedule.run()
    except (LookupError, ValueError, TypeError) as error:
        raise Violation("no event is unexpected", f"{type(error).__name__}: {error}") from error
    return schedule
