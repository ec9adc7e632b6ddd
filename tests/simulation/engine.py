"""An engine without Spark: it writes to the simulated outputs, remembers what it ran, and checks how it is driven.

It answers each effect once and in order. What it keeps is on a directory that outlives the process, if that is not lost too.
"""

from __future__ import annotations

from collections import deque
from random import Random

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    CloseEngine,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    FinishStep,
    NodeEvent,
    OpenEngine,
    RunStep,
    StepFinished,
)
from kcontrol.core.model import FailureKind, InputSlice, OutputSlice, StepResult, StepWork
from tests.simulation.invariants import check_finish, require, signature, signature_of
from tests.simulation.world import Fenced, World, twin_of

_KEPT = 3


class Directory:
    """What a node's disk holds: by step, the signatures of all steps up to it that made the state."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[object, ...]] = {}

    def copy(self) -> Directory:
        """What a new life is seeded with."""
        twin = Directory()
        twin.states = dict(self.states)
        return twin

    def openable(self) -> tuple[int, ...]:
        """Newest first."""
        return tuple(sorted((step for step in self.states if step), reverse=True))


class SimulatedEngine:
    """One life's engine."""

    def __init__(self, world: World, number: int, incarnation: int, directory: Directory, random: Random) -> None:
        self.world = world
        self.number = number
        self.incarnation = incarnation
        self.directory = directory
        self.random = random
        self.queue: deque[object] = deque()
        self.answers: deque[NodeEvent] = deque()
        self.opened = False
        self.history: tuple[object, ...] = ()
        self.ran: StepWork | None = None
        self.to_write: list[tuple[int, int]] | None = None
        self.written: list[OutputSlice] = []
        self.cancelled = 0

    def clone(self, world: World, directory: Directory, random: Random) -> SimulatedEngine:
        """The same in another world."""
        twin = twin_of(self)
        twin.world, twin.directory, twin.random = world, directory, random
        twin.queue, twin.answers = self.queue.copy(), self.answers.copy()
        twin.to_write = None if self.to_write is None else list(self.to_write)
        twin.written = list(self.written)
        return twin

    def ask(self, effect: object) -> None:
        """Take one more effect; a cancel reaches what runs and what waits at once."""
        if isinstance(effect, CancelAttempt):
            self.cancelled = len(self.queue)
        else:
            self.queue.append(effect)

    def take_answer(self, now_ms: int) -> NodeEvent | None:
        """The oldest answer that was not taken."""
        return self.answers.popleft() if self.answers else None

    def fail(self, kind: FailureKind) -> None:
        """The queries die: what runs is over, or, idle, the news comes out of the blue."""
        if self.queue:
            self.queue.popleft()
            self.cancelled = max(0, self.cancelled - 1)
        self._down(kind, f"{kind} in the engine")

    def _down(self, kind: FailureKind, error: str) -> None:
        self.opened = False
        self.to_write = None
        self.answers.append(EngineFailed(kind, error, self.world.now_ms))

    def advance(self) -> bool:
        """Do a little of what was asked for; False if there is nothing to do."""
        if not self.queue:
            return False
        effect = self.queue[0]
        if self.cancelled and isinstance(effect, RunStep | FinishStep):
            self._end(EngineFailed(FailureKind.LOST, "cancelled", self.world.now_ms))
            self.opened = False
            return True
        match effect:
            case OpenEngine():
                self._open(effect)
            case RunStep():
                self._run(effect)
            case FinishStep():
                self._finish(effect.step)
            case CloseEngine():
                self.opened = False
                self._end(EngineClosed(self.world.now_ms))
        return True

    def _end(self, answer: NodeEvent) -> None:
        self.queue.popleft()
        self.cancelled = max(0, self.cancelled - 1)
        self.to_write = None
        self.answers.append(answer)

    def _open(self, effect: OpenEngine) -> None:
        if effect.create:
            self.history = ()
            self.directory.states = {0: ()}
        elif effect.step in self.directory.states:
            self.history = self.directory.states[effect.step]  # type: ignore[assignment]
            self.directory.states = {step: kept for step, kept in self.directory.states.items() if step <= effect.step}
        else:
            self._end(EngineFailed(FailureKind.LOST, f"step {effect.step} is not there", self.world.now_ms))
            return
        self.opened = True
        self.ran = None
        self._end(EngineOpened(effect.step, self.world.now_ms))

    def _run(self, effect: RunStep) -> None:
        work = effect.work
        if self.to_write is None:
            if not self.opened:
                self._end(EngineFailed(FailureKind.LOST, "not open", self.world.now_ms))
                return
            require(self.ran is None, "an attempt is taken back before the next one runs", (self.ran, work))
            require(work.step == len(self.history) + 1, "an engine runs the step after the last", (work.step, self.history))
            self.ran = work
            self.written = []
            mine = work.writers if effect.expected is None else ()
            self.to_write = [(output, partition) for output, partitions in enumerate(mine) for partition in partitions]
            if effect.expected is not None:
                same = signature(work.step, work.now_ms, work.division) == signature_of(effect.expected)
                require(same, "a replay runs the division of the log", (work, effect.expected))
        if self.to_write:
            self._write(work)
            return
        self._end(AttemptWritten(work.step, self._result(work), self.world.now_ms))

    def _write(self, work: StepWork) -> None:
        assert self.to_write is not None
        output, partition = self.to_write.pop()
        records = sum(part.to - part.from_ for part in work.division) % 5
        try:
            wrote = self.world.write(output, partition, records, work.step, work.token, self.incarnation)
        except Fenced:
            self._end(EngineFailed(FailureKind.FENCED, "fenced", self.world.now_ms))
            self.opened = False
            return
        self.written.append(wrote)

    def _result(self, work: StepWork) -> StepResult:
        node_of = {item.name: item.node_of for item in self.world.spec.inputs}
        inputs = tuple(
            InputSlice(
                part.input, part.topic, part.topic_id, part.partition, part.from_, part.to, part.to - part.from_, "0" * 32
            )
            for part in work.division
            if node_of[part.input][part.partition] == self.number
        )
        moved = any(part.to > part.from_ for part in work.division) and self.random.random() < 0.1
        return StepResult(inputs, tuple(self.written), (), moved)

    def _finish(self, step: int) -> None:
        if not self.opened:
            self._end(EngineFailed(FailureKind.LOST, "not open", self.world.now_ms))
            return
        assert self.ran is not None
        check_finish(self.world, self.ran, step)
        self.history = (*self.history, signature(step, self.ran.now_ms, self.ran.division))
        self.ran = None
        self.directory.states[step] = self.history
        for old in sorted(self.directory.states)[:-_KEPT]:
            del self.directory.states[old]
        self._end(StepFinished(step, self.directory.openable(), self.world.now_ms))
