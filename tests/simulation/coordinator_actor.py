"""A coordinator's process: its core, what it has read, and what it is still about to do. It may die at any
event.

Records are published in order, some time after they were decided; requests to the broker go beside them, not
behind them, and are answered some time after that. What a dead process had already sent may still arrive: the
scheduler keeps it as an orphan.
"""

from __future__ import annotations

from collections import deque

from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    Assigned,
    CheckpointCommitted,
    CommitCheckpoint,
    CommitStep,
    CoordinatorEffect,
    CoordinatorEvent,
    EndProved,
    EndsReached,
    Publish,
    ReadToEnds,
    Resign,
    StepCommitted,
    Tick,
    TransactionFailed,
    WakeAt,
)
from kcontrol.core.model import FailureKind
from kcontrol.errors import DamagedRecordError
from tests.simulation.broker import Fenced, NotTheEnd
from tests.simulation.engine import BOOTED_BEFORE_MS
from tests.simulation.invariants import check_fold, check_steps, require
from tests.simulation.reader import Reader
from tests.simulation.requests import perform, publish
from tests.simulation.witness import CoordinatorWitness
from tests.simulation.world import World, twin_of


class CoordinatorActor:
    """A coordinator process. It does not know whether it still is the one that the pipeline is assigned
    to."""

    def __init__(self, world: World, uuid: str, skew_ms: int) -> None:
        self.world = world
        self.uuid = uuid
        self.skew_ms = skew_ms
        """What its wall clock is ahead of the broker's."""
        self.booted_ms = world.now_ms - BOOTED_BEFORE_MS
        self.reader = Reader(world)
        self.state = CoordinatorState.initial(
            world.spec.pipeline, transactional_id="sim", steps_topic="steps"
        )
        self.effects: deque[Publish] = deque()
        self.request: CoordinatorEffect | None = None
        """What is on its way to the broker."""
        self.answer: CoordinatorEvent | None = None
        self.target: tuple[int, int] | None = None
        self.log_end = 0
        """The log of steps reaches so far at least: Kafka has acknowledged what this
        coordinator has written there."""
        self.witness = CoordinatorWitness(world)
        self.trap: tuple[str, type | tuple[type, ...]] | None = None
        """What will go wrong (see `work` and `_transact`) with its next request of a type, or of some."""
        self.denied = False
        """Of the logs that are being read only the control log may be."""
        self.looks_on = False
        """It has asked for a commit, and will see to what comes next."""
        self.doomed = False
        self.overtaken = False

    def clone(self, world: World) -> CoordinatorActor:
        """The same in another world."""
        twin = twin_of(self)
        twin.world, twin.reader, twin.effects = world, self.reader.clone(world), self.effects.copy()
        twin.witness = twin_of(self.witness)
        twin.witness.world = world
        return twin

    def start(self) -> None:
        """Read what there is, then be assigned."""
        self.reader.deaf_until = self.reader.blind_until = 0
        if not self.world.replicated:
            self._begin_steps()
        self.read_all()
        if self.reader.has_read_all:
            check_steps(self.world, self.state.steps)
            check_fold(self.world, self.state.view)
        self.decide(Assigned(self.uuid, "sim", 1, self.now_ms, self.wall_ms))

    def _begin_steps(self) -> None:
        newest = self.reader.begin_at_checkpoint()
        if newest is not None:
            self.state = self.state.begun_at(newest)

    def read_all(self) -> None:
        """Everything that it is told is in the logs now; as the session does, steps are left
        for the first read to the ends."""
        steps = not self.world.replicated
        while (event := self.reader.next_event(self.now_ms, False, steps)) is not None:
            self.decide(event)

    @property
    def now_ms(self) -> int:
        """This process's monotonic clock."""
        return self.world.now_ms - self.booted_ms

    @property
    def wall_ms(self) -> int:
        """Its machine's wall clock."""
        return self.world.now_ms + self.skew_ms

    def decide(self, event: CoordinatorEvent) -> None:
        """One event, with the rules that can be seen from outside checked."""
        self.world.events += 1
        before, decision = self.state, coordinator.decide(self.state, event)
        self.state = decision.state
        self.witness.see(before, event, decision.state, tuple(decision.effects))
        for effect in decision.effects:
            if isinstance(effect, Publish):
                self.effects.append(effect)
            elif not isinstance(effect, WakeAt | Resign):
                idle = self.request is None and self.answer is None and self.target is None
                require(idle, "there is one transactional effect at a time", effect)
                self.request = effect
                # Where no epochs are told nothing comes of it.
                self.looks_on = self.world.tells_epochs and isinstance(effect, CommitStep)

    def read_one(self, prefer_steps: bool) -> bool:
        """One record of a log; of the steps, where leaders move, only when it reads to
        the ends, as the session does."""
        steps = not self.world.replicated or self.target is not None
        event = self.reader.next_event(self.now_ms, prefer_steps, steps)
        if event is not None:
            try:
                self.decide(event)
            except DamagedRecordError:
                self.doomed = self.reader.was_left_behind(self.state.steps)
                if not self.doomed:
                    raise
        return event is not None

    def tick(self) -> None:
        """The clock."""
        self.decide(Tick(self.now_ms, self.wall_ms))

    def take_answer(self) -> bool:
        """The answer to the transactional effect under way, if it is there."""
        if self.target is not None and self.answer is None and self.reader.reached(self.target):
            self.target = None
            self.answer = EndsReached(self.reader.steps_at, self.now_ms)
            if self.denied:
                self.denied = False
                self.answer = TransactionFailed(FailureKind.DENIED, "not allowed", self.now_ms)
        if self.answer is None:
            return False
        answer, self.answer = self.answer, None
        self.decide(answer)
        told = answer.following if isinstance(answer, StepCommitted) else None
        if told is not None and told.logged.offset == self.state.steps.last_offset:
            self.reader.pass_over(told.logged.offset + 1)
        return True

    def run_effect(self, twice: bool = False) -> bool:
        """Publish what is next."""
        if not self.effects:
            return False
        publish(self.world, self.effects.popleft(), twice=twice)
        return True

    def work(self) -> bool:
        """The request reaches the broker, if nothing goes wrong on the way."""
        if self.looks_on and self.state.at is State.COMMITTING:
            self.looks_on = False
            self.tick()
            return True
        request, fault = self.request, ""
        if request is None:
            return False
        if self.trap is not None and isinstance(request, self.trap[1]):
            fault, self.trap = self.trap[0], None
        if fault == "kill":
            self.doomed = True
            return False
        if fault == "takeover":
            self.overtaken = True
            return False
        self.request = None
        self._transact(request, fault)
        return True

    def _transact(self, effect: CoordinatorEffect, fault: str) -> None:
        if fault == "before":
            self.answer = TransactionFailed(FailureKind.BROKER, "request lost", self.now_ms)
            return
        if isinstance(effect, ReadToEnds):
            self.denied = fault == "denied"
            if fault == "moves":
                self.world.move_leaders(self.world.events)
            self._begin_steps()
            control_end, steps_end = self.reader.look_for_ends()
            at_least = self.log_end if effect.settled else 0
            self.target = (control_end, 0 if self.denied else max(steps_end, at_least))
            return
        if fault == "denied":
            self.answer = TransactionFailed(FailureKind.DENIED, "not allowed", self.now_ms)
            return
        try:
            if fault == "half" and isinstance(effect, CommitStep | CommitCheckpoint):
                write_half(self.world, effect)
            answer = perform(self.world, effect, self.now_ms)
            if isinstance(answer, StepCommitted | CheckpointCommitted):
                self.log_end = len(self.world.steps) - 1
            elif isinstance(answer, EndProved):
                self.log_end = len(self.world.steps)
        except Fenced:
            answer = TransactionFailed(FailureKind.FENCED, "fenced", self.now_ms)
        except NotTheEnd as error:
            self.log_end = max(self.log_end, error.log_end)
            answer = TransactionFailed(FailureKind.BROKER, str(error), self.now_ms)
        self.answer = (
            answer if fault != "after" else TransactionFailed(FailureKind.BROKER, "answer lost", self.now_ms)
        )


def write_half(world: World, effect: CommitStep | CommitCheckpoint) -> None:
    """What ends the transaction is written, and the commit is never asked for. Raises Fenced, or
    NotTheEnd."""
    records = (effect.boundary,) if isinstance(effect, CommitStep) else (effect.checkpoint, effect.assignment)
    world.write_last(effect.producer_epoch, *(each for each in records if each is not None))
    raise NotTheEnd("nobody has heard where it came to lie", 0)
