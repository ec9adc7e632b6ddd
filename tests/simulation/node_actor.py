"""A node's process: its core, its engine, what it has read, and what it is still about
to do. It may die at any event."""

from __future__ import annotations

from collections import deque
from random import Random

from kcontrol.core.events import (
    Exit,
    InputArrived,
    Joined,
    NodeEvent,
    Publish,
    Tick,
    WakeAt,
)
from kcontrol.core.model import NodeJoin, ReceivedPartition
from kcontrol.core.node import decide as node
from kcontrol.core.node.state import NodeMachine
from kcontrol.core.step.offsets import node_of
from kcontrol.errors import DamagedRecordError
from tests.simulation.directory import Directory
from tests.simulation.engine import SimulatedEngine
from tests.simulation.invariants import check_fold, check_steps
from tests.simulation.reader import Reader
from tests.simulation.requests import publish
from tests.simulation.witness import check_node
from tests.simulation.world import World, twin_of


class NodeActor:
    """A node process: its core, and its engine on a directory that outlives it."""

    def __init__(
        self, world: World, number: int, incarnation: int, directory: Directory, random: Random
    ) -> None:
        self.world = world
        self.number = number
        self.directory = directory
        self.reader = Reader(world)
        self.state = NodeMachine.initial(world.spec.pipeline, number)
        self.effects: deque[Publish] = deque()
        self.leaving: Exit | None = None
        self.incarnation = world.append(
            NodeJoin(world.spec.pipeline, number, f"life-{number}-{incarnation}", "sim", incarnation)
        )
        self.skew_ms = 0
        self.engine = SimulatedEngine(world, number, self.incarnation, directory, random)
        self.told: list[list[int]] = []
        self.exited = False
        self.replaced = False

    def clone(self, world: World, directory: Directory, random: Random) -> NodeActor:
        """The same in another world."""
        twin = twin_of(self)
        twin.world, twin.directory, twin.reader = world, directory, self.reader.clone(world)
        twin.effects, twin.engine = self.effects.copy(), self.engine.clone(world, directory, random)
        return twin

    def start(self) -> None:
        """Read through its own join record, and the steps to their end, as the shell does; then join."""
        self.reader.shown = self.incarnation + 1
        newest = self.reader.begin_at_checkpoint()
        if newest is not None:
            self.state = self.state.begun_at(newest)
        self._read_to_ends()
        if self.reader.control_at == len(self.world.control):
            check_fold(self.world, self.state.view)
        self.engine.spec = self.state.view.spec() or self.world.spec
        restorable = self.engine.restorable(self.state.steps.checkpoints)
        first_read = self.state.boundaries.first
        if not any(
            step >= first_read - 1
            for step in (*self.engine.directory.openable(self.engine.spec.assignment), *restorable)
        ):
            self.state, self.reader.steps_at = self.state.unread(), 0
            self._read_to_ends()
        if self.reader.has_read_all:
            check_steps(self.world, self.state.steps)
        self.decide(
            Joined(
                self.incarnation,
                self.engine.directory.openable(self.engine.spec.assignment),
                self.now_ms,
                self.wall_ms,
                restorable,
            )
        )

    def _read_to_ends(self) -> None:
        target = (self.reader.control_end(), self.reader.steps_end())
        while not self.reader.reached(target):
            event = self.reader.next_event(self.now_ms, False)
            if event is None:
                break
            self.decide(event)

    @property
    def now_ms(self) -> int:
        """This process's monotonic clock."""
        return self.engine.now_ms

    @property
    def wall_ms(self) -> int:
        """Its machine's wall clock."""
        return self.world.now_ms + self.skew_ms

    def decide(self, event: NodeEvent) -> None:
        """One event."""
        self.world.events += 1
        before, decision = self.state, node.decide(self.state, event)
        self.state = decision.state
        check_node(self.world, before, decision.state, tuple(decision.effects))
        for effect in decision.effects:
            if isinstance(effect, Publish):
                self.effects.append(effect)
            elif isinstance(effect, Exit):
                self.leaving = effect
            elif not isinstance(effect, WakeAt):
                self.engine.ask(effect)

    def read_one(self, prefer_steps: bool) -> bool:
        """One record of one of the logs."""
        event = self.reader.next_event(self.now_ms, prefer_steps)
        if event is not None:
            try:
                self.decide(event)
            except DamagedRecordError:
                self.exited = self.reader.was_left_behind(self.state.steps)
                if not self.exited:
                    raise
        return event is not None

    def tick(self) -> None:
        """The clock."""
        self.decide(Tick(self.now_ms, self.wall_ms))

    def watch(self) -> bool:
        """The watcher of the inputs, if there is something new."""
        world, spec = self.world, self.engine.spec
        late = world.hidden_until.get(self.number, 0) > world.events
        shown = [[end // 2 for end in ends] for ends in world.input_ends] if late else world.input_ends
        now = [*shown, *world.input_earliest]
        if self.told == now:
            return False
        self.told = [list(offsets) for offsets in now]
        for item, ends, earliest in zip(spec.inputs, shown, world.input_earliest, strict=True):
            seen = tuple(
                ReceivedPartition(
                    partition, item.topic_id, earliest[partition], end, world.gaps(partition, end)
                )
                for partition, end in enumerate(ends)
                if node_of(item, spec.nodes, partition) == self.number
            )
            self.decide(InputArrived(item.name, seen, 0, self.now_ms))
        return True

    def work(self) -> bool:
        """The engine does a little, or the watcher sees something new."""
        return self.engine.advance() or self.watch()

    def take_answer(self) -> bool:
        """The engine's next answer, if there is one."""
        answer = self.engine.take_answer(self.now_ms)
        if answer is None:
            return False
        self.decide(answer)
        return True

    def run_effect(self, twice: bool = False) -> bool:
        """Publish what is next; the process ends when all is published."""
        if self.effects:
            publish(self.world, self.effects.popleft(), twice=twice)
            return True
        if self.leaving is not None and not self.exited:
            self.exited = True
            self.replaced = self.leaving.replaced
            return True
        return False
