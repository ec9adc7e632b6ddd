"""One schedule: a seeded choice of what happens next, over and over, and then a world without faults that must make progress.

Everything random comes from one generator, so a seed is a schedule for ever.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from kcontrol.core.coordinator_table import State
from kcontrol.core.events import AddPartitions, CommitStep, InitProducer, Publish
from kcontrol.core.model import Desired, DesiredMode, FailureKind, StepWork
from tests.simulation.actors import CoordinatorActor, NodeActor, perform, publish
from tests.simulation.engine import Directory
from tests.simulation.invariants import Violation, require
from tests.simulation.specs import PIPELINE, simulated_spec
from tests.simulation.world import Fenced, World

_ENGINE_FAULTS = (FailureKind.LOST, FailureKind.LOST, FailureKind.QUERY, FailureKind.BROKER, FailureKind.FENCED)
_PROGRESS_ROUNDS = 400


class Schedule:
    """A world, its processes, and a generator that decides."""

    def __init__(self, seed: int, nodes: int, faults: Counter[str]) -> None:
        self.random = Random(seed)
        self.faults = faults
        clock_ms = 500 if self.random.random() < 0.1 else 0
        self.world = World(simulated_spec(nodes, clock_ms))
        self.nodes: list[NodeActor | None] = [None] * nodes
        self.directories = [Directory() for _ in range(nodes)]
        self.coordinators: list[CoordinatorActor] = []
        self.orphans: list[InitProducer | AddPartitions | CommitStep | Publish | tuple[StepWork, list[tuple[int, int]], int]] = []
        self.lives = 0
        self.events = 0
        self.world.append(self.world.spec)
        self.world.append(Desired(PIPELINE, DesiredMode.RUNNING, "r0"))
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

    def kill_coordinator(self, actor: CoordinatorActor) -> None:
        """SIGKILL; the request that it sent last may still be on its way."""
        self.faults["coordinator killed"] += 1
        self.coordinators.remove(actor)
        if actor.effects and self.random.random() < 0.5:
            effect = actor.effects[0]
            if isinstance(effect, Publish):
                publish(self.world, effect, count=int(self.random.random() * (len(effect.records) + len(effect.forget) + 1)))
            elif isinstance(effect, InitProducer | AddPartitions | CommitStep):
                self.orphans.append(effect)

    def kill_node(self, number: int) -> None:
        """SIGKILL; its executors may write on for a while; its disk may be gone too."""
        actor = self.nodes[number]
        if actor is None:
            return
        self.faults["node killed"] += 1
        self.nodes[number] = None
        engine = actor.engine
        if engine.to_write and engine.ran is not None:
            self.orphans.append((engine.ran, engine.to_write, actor.incarnation))
        if self.random.random() < 0.2:
            self.faults["disk lost"] += 1
            self.directories[number] = Directory()

    # --- what can happen ------------------------------------------------------------------------------------------------------

    def run(self, events: int) -> None:
        """So many events with faults, then without until there is progress."""
        draw = self.random.random
        while self.events < events:
            self.events += 1
            if draw() < 0.06:
                self._fault()
            elif draw() < 0.12:
                self._outside()
            else:
                self._process()
        self._settle()

    def _outside(self) -> None:
        """Time passes, input arrives, orphans arrive."""
        draw = self.random.random
        choice = draw()
        if choice < 0.45:
            ends = self.world.input_ends[0]
            ends[int(draw() * len(ends))] += 1 + int(draw() * 3)
        elif choice < 0.8:
            self.world.now_ms += int(draw() * 300)
            for actor in (*self.coordinators, *self.nodes):
                if actor is not None and draw() < 0.5:
                    actor.tick()
        elif self.orphans:
            self._orphan()

    def _orphan(self) -> None:
        self.faults["late message of the dead"] += 1
        orphan = self.orphans.pop(int(self.random.random() * len(self.orphans)))
        try:
            if isinstance(orphan, tuple):
                work, to_write, incarnation = orphan
                for output, partition in to_write:
                    self.world.write(output, partition, 1, work.step, work.token, incarnation)
            elif not isinstance(orphan, Publish):
                perform(self.world, orphan, self.world.now_ms)
        except Fenced:
            self.faults["late message fenced"] += 1

    def _process(self) -> None:
        """One process does one thing, or, often, all that it can do at once."""
        draw = self.random.random
        index = int(draw() * (len(self.coordinators) + len(self.nodes)))
        if index < len(self.coordinators):
            actor: CoordinatorActor | NodeActor | None = self.coordinators[index]
        else:
            actor = self.nodes[index - len(self.coordinators)]
        if actor is None:
            return
        for _ in range(1 + int(draw() * 8)):
            if not self._act(actor, int(draw() * 5)):
                return

    def _act(self, actor: CoordinatorActor | NodeActor, first: int) -> bool:
        """The first possible of its actions, counted from a random one."""
        draw = self.random.random
        for turn in range(5):
            match (first + turn) % 5:
                case 0 | 1 if actor.read_one(draw() < 0.5):
                    return True
                case 2 if self._effect(actor):
                    return True
                case 3 if actor.take_answer():
                    return True
                case 4 if isinstance(actor, NodeActor) and (actor.engine.advance() or actor.watch()):
                    return True
        return False

    def _effect(self, actor: CoordinatorActor | NodeActor) -> bool:
        if isinstance(actor, NodeActor):
            return actor.run_effect()
        return actor.run_effect()

    # --- faults ---------------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        draw = self.random.random
        match int(draw() * 9):
            case 0:
                self.faults["takeover beside a living coordinator"] += 1
                if len(self.coordinators) > 2:
                    self.kill_coordinator(self.coordinators[0])
                self.assign()
            case 1:
                self.kill_coordinator(self.coordinators[int(draw() * len(self.coordinators))])
                if not self.coordinators:
                    self.assign()
            case 2:
                number = int(draw() * len(self.nodes))
                self.kill_node(number)
                if draw() < 0.7:
                    self.start_node(number)
            case 3:
                number = int(draw() * len(self.nodes))
                if self.nodes[number] is None:
                    self.start_node(number)
            case 4:
                self.faults["compaction"] += 1
                self.world.compact(int(draw() * (len(self.world.control) + 1)))
            case 5:
                node = self.nodes[int(draw() * len(self.nodes))]
                if node is not None:
                    kind = _ENGINE_FAULTS[int(draw() * len(_ENGINE_FAULTS))]
                    self.faults[f"engine fault {kind}"] += 1
                    node.engine.fail(kind)
            case 6:
                actor = self.coordinators[int(draw() * len(self.coordinators))]
                if actor.effects and not isinstance(actor.effects[0], Publish):
                    when = "before" if draw() < 0.4 else "after"
                    self.faults[f"broker fault {when} {type(actor.effects[0]).__name__}"] += 1
                    actor.run_effect(fault=when)
            case 7:
                either = (*self.coordinators, *(one for one in self.nodes if one is not None))
                one = either[int(draw() * len(either))]
                if one.effects and isinstance(one.effects[0], Publish):
                    self.faults["published twice"] += 1
                    one.run_effect(twice=True)
            case 8:
                self.faults["stall"] += 1
                self.world.now_ms += (3_000, 12_000, 25_000)[int(draw() * 3)]

    # --- and then all is well ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """No more faults: the pipeline must commit all input that there is, within a bounded number of rounds."""
        world = self.world
        while self.orphans:
            self._orphan()
        for number, actor in enumerate(self.nodes):
            if actor is None or actor.exited:
                self.start_node(number)
        if len(self.coordinators) > 1:
            for zombie in self.coordinators[:-1]:
                while zombie.run_effect():
                    pass
            self.coordinators = self.coordinators[-1:]
        world.input_ends[0][0] += 1
        for _ in range(_PROGRESS_ROUNDS):
            self._round()
            if self._all_done():
                return
        raise Violation("without faults the pipeline makes progress", self._describe())

    def _round(self) -> None:
        """Every process does all it can; then time passes."""
        coordinator = self.coordinators[0]
        if coordinator.state.at is State.RESIGNED and not coordinator.effects:
            coordinator.uuid += "'"
            coordinator.start()
        for number, node in enumerate(self.nodes):
            if node is None or node.exited:
                self.start_node(number)
        busy = True
        while busy:
            busy = False
            for actor in (coordinator, *self.nodes):
                assert actor is not None
                for action in range(1, 5):
                    self.events += 1
                    while self._only(actor, action):
                        busy = True
        self.world.now_ms += 500
        for actor in (coordinator, *self.nodes):
            assert actor is not None
            actor.tick()

    def _only(self, actor: CoordinatorActor | NodeActor, action: int) -> bool:
        if isinstance(actor, NodeActor) and actor.exited:
            return False
        match action:
            case 1:
                return actor.read_one(True)
            case 2:
                return self._effect(actor)
            case 3:
                return actor.take_answer()
        return isinstance(actor, NodeActor) and (actor.engine.advance() or actor.watch())

    def _all_done(self) -> bool:
        world = self.world
        if not world.steps:
            return False
        last = world.steps[-1].record
        ends = {(p.input, p.partition): p.to for p in last.inputs}  # type: ignore[union-attr]
        if any(ends["in", p] != end for p, end in enumerate(world.input_ends[0])):
            return False
        return all(node is not None and node.state.step == len(world.steps) for node in self.nodes)

    def _describe(self) -> str:
        states = [(c.uuid, c.state.at, c.state.failure, c.state.halt) for c in self.coordinators]
        nodes = [(n.state.at, n.state.step, n.state.error) for n in self.nodes if n is not None]
        return f"{len(self.world.steps)} steps, coordinators {states}, nodes {nodes}"


def run_schedule(seed: int, faults: Counter[str], events: int = 60) -> int:
    """One schedule; how many events it had. Raises Violation."""
    schedule = Schedule(seed, 1 + seed % 2, faults)
    try:
        schedule.run(events)
    except Violation:
        raise
    except Exception as error:
        raise Violation("no event is unexpected", f"{type(error).__name__}: {error}") from error
    require(not schedule.world.open or True, "x", "")
    return schedule.events
