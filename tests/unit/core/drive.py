"""Drives one coordinator or one node by hand: a log that it reads, and what it wants done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    Assigned,
    CommitStep,
    ControlSeen,
    CoordinatorEvent,
    EndProved,
    EndsReached,
    Following,
    Joined,
    NodeEvent,
    PartitionsAdded,
    ProducerReady,
    Publish,
    StepCommitted,
    StepSeen,
    Tick,
    WakeAt,
)
from kcontrol.core.model import (
    AgentPlacement,
    Claim,
    Command,
    ControlRecord,
    Desired,
    DesiredMode,
    Environment,
    InputSlice,
    Logged,
    LoggedStep,
    NodeJoin,
    NodePhase,
    NodeState,
    OutputSlice,
    PipelineSpec,
    Received,
    ReceivedPartition,
    Resume,
    Status,
    StepRecord,
    StepWork,
    Tombstone,
    Written,
)
from kcontrol.core.node import decide as node
from kcontrol.core.node.state import NodeMachine
from tests.unit.core.made import SPEC

_T = TypeVar("_T")
START_MS = 10_000


class Log:
    """Offsets and time for one machine under test."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.set_ms = 0
        """By how much the machine's wall clock was set forward; back if less than 0."""
        self.stamped_ms = 0
        """What the log's timestamps are ahead of the monotonic clock."""
        self.end = 0
        self.steps_end = 0

    @property
    def wall_ms(self) -> int:
        """The wall clock. In most tests it shows the same as the monotonic clock, as does the broker's."""
        return self.now_ms + self.set_ms

    def next(self, record: ControlRecord | Tombstone) -> ControlSeen:
        """The record at the end of the log, as an event."""
        self.end += 1
        return ControlSeen(Logged(self.end - 1, self.now_ms + self.stamped_ms, record), self.now_ms)

    def next_step(self, record: StepRecord | Tombstone) -> StepSeen:
        """The same in the log of steps."""
        self.steps_end += 1
        return StepSeen(LoggedStep(self.steps_end - 1, record), self.now_ms)


def only(kind: type[_T], effects: Iterable[object]) -> _T:
    """The one effect of this kind."""
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


def published(kind: type[_T], effects: Iterable[object]) -> list[_T]:
    """The records of one kind that the effects publish."""
    return [
        record
        for effect in effects
        if isinstance(effect, Publish)
        for record in effect.records
        if isinstance(record, kind)
    ]


class CoordinatorDriver:
    """A coordinator, and a node 0 that says what the test wants."""

    def __init__(self, spec: PipelineSpec | None = SPEC) -> None:
        self.log = Log()
        self.state = CoordinatorState.initial(
            "p", transactional_id="kcontrol.p", steps_topic="kcontrol.p.steps"
        )
        self.beat = 0
        self.incarnations: dict[int, int] = {}
        self.producer_epoch = 0
        self.proves = True
        """What is to be proved of the end of the log of steps is proved at once: there is nothing more."""
        if spec is not None:
            self.see(spec)
        self.see(Desired("p", DesiredMode.RUNNING, "r0"))

    def feed(self, event: CoordinatorEvent) -> list[Any]:
        """One event; its effects without wake-ups. Its own publications come back through the log at once."""
        decision = coordinator.decide(self.state, event)
        self.state = decision.state
        effects: list[Any] = [effect for effect in decision.effects if not isinstance(effect, WakeAt)]
        if self.proves and self.state.at is State.PROVING:
            effects += [*self.feed(EndProved(self.log.now_ms)), *self.ready()]
        return effects

    def see(self, record: ControlRecord | Tombstone) -> list[Any]:
        """A record of the control log."""
        return self.feed(self.log.next(record))

    def see_step(self, record: StepRecord | Tombstone) -> list[Any]:
        """A record of the log of steps."""
        return self.feed(self.log.next_step(record))

    def tick(self, after_ms: int = 0) -> list[Any]:
        """The clock, so much later."""
        self.log.now_ms += after_ms
        return self.feed(Tick(self.log.now_ms, self.log.wall_ms))

    def is_quiet(self, after_ms: int) -> bool:
        """Whether a tick so much later brings nothing but the status once more, as a sign of life."""
        before = self.status
        effects = self.tick(after_ms)
        return [each for each in effects if each != Publish((before,))] == []

    def take_over(self) -> list[Any]:
        """From the assignment to the end of both logs; what it does then."""
        effects = self.feed(Assigned("c", "host", 1, self.log.now_ms, self.log.wall_ms))
        self.see(published(Claim, effects)[0])
        return self.ready()

    def ready(self) -> list[Any]:
        """The producer is ready and both logs are read."""
        self.producer_epoch += 1
        self.feed(ProducerReady(7, self.producer_epoch, self.log.now_ms))
        return self.feed(EndsReached(self.log.steps_end, self.log.now_ms))

    def join(self, number: int = 0, environment: Environment | None = None) -> list[Any]:
        """A new incarnation of a node."""
        self.incarnations[number] = self.log.end
        return self.see(NodeJoin("p", number, f"u{self.log.end}", "host", 2, "", environment))

    def say(self, number: int = 0, **changes: Any) -> list[Any]:
        """A node's state: open at the last committed step and up to date, but for the changes."""
        self.beat += 1
        command = self.state.nodes.commands.get(number)
        said = NodeState(
            pipeline="p",
            node=number,
            incarnation=self.incarnations[number],
            phase=NodePhase.OPEN,
            step=self.state.steps.step,
            attempt=None,
            claim_epoch=self.state.tenure.epoch,
            command_epoch=self.state.tenure.epoch if command is not None else -1,
            command_serial=command.serial if command is not None else -1,
            openable=(),
            error="",
            beat=self.beat,
            checkpoint=self.state.steps.checkpoint,
        )
        return self.see(replace(said, **changes))

    def receive(self, *ends: int, number: int = 0, **changes: Any) -> list[Any]:
        """How far the input reaches, by partition."""
        seen = tuple(replace(ReceivedPartition(p, "T1", 0, end), **changes) for p, end in enumerate(ends))
        return self.see(Received("p", number, self.incarnations[number], "in", 1, seen, 0, 0))

    def forget_step(self, step: int) -> list[Any]:
        """A step is dropped from the log."""
        return self.see_step(Tombstone(f"step/{step}"))

    def resume(self) -> list[Any]:
        """The user has looked at a halt."""
        return self.see(Resume("p", f"r{self.log.end}"))

    def in_place(self) -> list[Any]:
        """A coordinator that has taken over, and node 0 open at step 0."""
        self.take_over()
        self.join()
        self.say(phase=NodePhase.CLOSED)
        return self.say()

    def attempt(self, *ends: int) -> StepWork:
        """Input arrives and the step is asked of node 0, which begins."""
        self.receive(*ends)
        command = published(Command, self.feed(PartitionsAdded(self.log.now_ms)))[0]
        assert command.work is not None
        self.say(attempt=command.work.token)
        return command.work

    def write(self, work: StepWork, number: int = 0, **changes: Any) -> list[Any]:
        """A good report of an attempt, but for the changes."""
        inputs = tuple(
            InputSlice(p.input, p.topic, p.topic_id, p.partition, p.from_, p.to, p.to - p.from_, "1" * 32)
            for p in work.division
        )
        outputs = (OutputSlice("out", "output", 1, 10, 13, 3, "2" * 32),)
        report = Written(
            "p",
            number,
            self.incarnations[number],
            work.step,
            work.token,
            inputs,
            outputs,
            (),
            False,
            None,
            "",
        )
        return self.see(replace(report, **changes))

    def answer(self, commit: CommitStep, epoch: int) -> list[Any]:
        """Kafka answers the commit of a step, and tells the epoch of the next transaction."""
        logged = LoggedStep(commit.expected_offset, commit.boundary)
        following = Following(7, epoch, logged, commit.expected_offset + 2)
        return self.feed(StepCommitted(commit.boundary.step, self.log.now_ms, following))

    @property
    def status(self) -> Status:
        """What was last published."""
        assert self.state.shown.status is not None
        return self.state.shown.status


class NodeDriver:
    """Node 0."""

    def __init__(
        self,
        spec: PipelineSpec = SPEC,
        placement: AgentPlacement | None = None,
        before: Sequence[ControlRecord] = (),
    ) -> None:
        self.log = Log()
        self.state = NodeMachine.initial("p", 0, placement)
        for record in (spec, *before):
            self.see(record)
        self.epoch = self.log.end
        self.serial = 0
        self.see(Claim("p", "c", "host", 1))
        self.incarnation = self.log.end
        self.see(NodeJoin("p", 0, "u", "host", 2, placement=placement))

    def feed(self, event: NodeEvent) -> list[Any]:
        """One event; its effects without wake-ups."""
        decision = node.decide(self.state, event)
        self.state = decision.state
        return [effect for effect in decision.effects if not isinstance(effect, WakeAt)]

    def see(self, record: ControlRecord | Tombstone) -> list[Any]:
        """A record of the control log."""
        return self.feed(self.log.next(record))

    def see_step(self, record: StepRecord | Tombstone) -> list[Any]:
        """A record of the log of steps."""
        return self.feed(self.log.next_step(record))

    def tick(self, after_ms: int = 0) -> list[Any]:
        """The clock, so much later."""
        self.log.now_ms += after_ms
        return self.feed(Tick(self.log.now_ms, self.log.wall_ms))

    def joined(self, *openable: int) -> list[Any]:
        """The join record has its offset."""
        return self.feed(Joined(self.incarnation, openable, self.log.now_ms, self.log.wall_ms))

    def claim(self) -> list[Any]:
        """A newer coordinator."""
        self.epoch = self.log.end
        self.serial = 0
        return self.see(Claim("p", f"c{self.epoch}", "host", 1))

    def command(self, kind: Any, step: int = 0, work: StepWork | None = None, **changes: Any) -> list[Any]:
        """The next command of the newest coordinator."""
        self.serial += 1
        return self.see(
            replace(Command("p", self.epoch, self.serial, 0, self.incarnation, kind, step, work), **changes)
        )
