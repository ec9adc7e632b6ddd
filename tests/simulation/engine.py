"""An engine without Spark: it writes to the simulated outputs, remembers what it ran, and checks how it is
driven.

It answers each effect once and in order. What it keeps is on a directory that outlives the
process, if that is not lost too.
"""

from __future__ import annotations

from collections import deque
from random import Random

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    CloseEngine,
    DropParts,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    FinishStep,
    MakeReady,
    NodeEvent,
    OpenEngine,
    PartSaved,
    PinStep,
    RunStage,
    RunStep,
    SavePart,
    StepFinished,
    StepPinned,
)
from kcontrol.core.model import (
    Checkpoint,
    FailureKind,
    InputRange,
    InputSlice,
    LayoutPhase,
    OutputSlice,
    SavedFiles,
    StepResult,
    StepWork,
)
from kcontrol.core.step.exchange import stages_of
from kcontrol.core.step.offsets import node_of
from tests.simulation.broker import Fenced, NotAdded
from tests.simulation.chains import chain, made_by
from tests.simulation.directory import Directory
from tests.simulation.exchanged import GONE, ONE_WATERMARK
from tests.simulation.exchanging import Exchanging
from tests.simulation.invariants import check_begun, check_created, check_rerun, require
from tests.simulation.rows import rows_of
from tests.simulation.specs import shard_sizes
from tests.simulation.states import (
    check_finish,
    check_layout,
    check_not_void,
    check_opened,
    signature,
    signature_of,
)
from tests.simulation.stored import drop, held
from tests.simulation.world import StoredPart, World, twin_of

BOOTED_BEFORE_MS = 5_000
"""What the monotonic clock of a process shows at its start."""
_KEPT = 3
_SLOWEST_SAVE = 12


class SimulatedEngine:
    """One life's engine."""

    def __init__(
        self, world: World, number: int, incarnation: int, directory: Directory, random: Random
    ) -> None:
        self.world = world
        self.number = number
        self.incarnation = incarnation
        self.spec = world.spec
        """The definition that its incarnation was started with."""
        self.directory = directory
        self.random = random
        self.booted_ms = world.now_ms - BOOTED_BEFORE_MS
        self.queue: deque[object] = deque()
        self.answers: deque[NodeEvent] = deque()
        self.opened = False
        self.step = 0
        """The step that it holds complete: one that was made, never a reset."""
        self.history: tuple[object, ...] = ()
        self.ran: StepWork | None = None
        self.ready: StepWork | None = None
        """What it was made ready for: that is run next, or it is opened anew."""
        self.to_write: list[tuple[int, int]] | None = None
        """Output and partition, or, less than 0, one less than minus the exchange's number, and the slot."""
        self.written: list[OutputSlice] = []
        self.exchanging = Exchanging(world, number)
        self.recording: tuple[int, tuple[object, ...]] | None = None
        """A step that was finished and is not on disk yet, with the history up to it."""
        self.cancelled = 0
        self.pinned: tuple[object, ...] = ()
        self.saving: SavePart | None = None
        self.to_save = 0
        """How much of it is still to be copied."""
        self.drops: deque[DropParts] = deque()
        self.trouble: type | None = None
        """What will fail next: a PinStep or a SavePart."""

    @property
    def now_ms(self) -> int:
        """The monotonic clock of the process."""
        return self.world.now_ms - self.booted_ms

    def clone(self, world: World, directory: Directory, random: Random) -> SimulatedEngine:
        """The same in another world."""
        twin = twin_of(self)
        twin.world, twin.directory, twin.random = world, directory, random
        twin.queue, twin.answers = self.queue.copy(), self.answers.copy()
        twin.to_write = None if self.to_write is None else list(self.to_write)
        twin.written, twin.exchanging = list(self.written), self.exchanging.clone(world)
        twin.drops = self.drops.copy()
        return twin

    def ask(self, effect: object) -> None:
        """Take one more effect; a cancel reaches what runs and what waits at once."""
        if isinstance(effect, CancelAttempt):
            self.cancelled, self.ready = len(self.queue), None
        elif isinstance(effect, MakeReady):
            self.ready = effect.work
        elif isinstance(effect, SavePart):
            self.saving, self.to_save = effect, 1 + int(self.random.random() * _SLOWEST_SAVE)
        elif isinstance(effect, DropParts):
            self.drops.append(effect)
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
        self.opened, self.ready = False, None
        self.to_write = None
        if self.random.random() < 0.5:
            self._record()
        self.recording = None
        self.answers.append(self._failed(kind, error))

    def _failed(self, kind: FailureKind, error: str) -> EngineFailed:
        return EngineFailed(kind, error, self.now_ms, self._openable())

    def _openable(self) -> tuple[int, ...]:
        found = self.directory.openable(self.spec.assignment)
        return found if self.recording is None or self.recording[0] in found else (self.recording[0], *found)

    def _record(self) -> None:
        """What was finished comes to the disk."""
        if self.recording is not None:
            step, history = self.recording
            self.recording = None
            self.directory.states[step] = history
            for old in sorted(self.directory.states)[:-_KEPT]:
                del self.directory.states[old]

    def advance(self) -> bool:
        """Do a little of what was asked for; False if there is nothing to do."""
        if self.recording is not None and self.random.random() < 0.3:
            self._record()
        if self.drops and self.random.random() < 0.5:
            self._drop(self.drops.popleft())
            return True
        if self.saving is not None and (not self.queue or self.random.random() < 0.5):
            self._save(self.saving)
            return True
        if not self.queue:
            return bool(self.drops)
        effect = self.queue[0]
        if self.cancelled and isinstance(effect, RunStep | RunStage | FinishStep):
            self._end(self._failed(FailureKind.LOST, "cancelled"))
            self.opened = False
            return True
        match effect:
            case OpenEngine():
                self._open(effect)
            case RunStep():
                return self._run(effect)
            case RunStage():
                return self._run_stage(effect)
            case FinishStep():
                self._finish(effect)
            case PinStep(step):
                self._pin(step)
            case CloseEngine():
                self._record()
                self.opened = False
                self._end(EngineClosed(self.now_ms))
        return True

    def _reached(self, step: int) -> None:
        self.world.reached[self.incarnation] = max(step, self.world.reached.get(self.incarnation, 0))

    # --- checkpoints ----------------------------------------------------------------------------------------

    def restorable(self, checkpoints: tuple[Checkpoint, ...]) -> tuple[int, ...]:
        """Those of which all is in the location that this node needs."""
        return tuple(one.step for one in checkpoints if self._held(one) is not None)

    def _held(self, checkpoint: Checkpoint) -> tuple[object, ...] | None:
        return held(self.world, self.spec, self.number, checkpoint)

    def _pin(self, step: int) -> None:
        self._record()
        self.saving = None
        error = self._fails(PinStep)
        if not error and (not self.opened or self.step != step or self.ran is not None):
            error = f"step {step} is not what the engine holds"
        self.pinned = self.history
        self._end(StepPinned(step, error, self.now_ms))

    def _save(self, effect: SavePart) -> None:
        self.to_save -= 1
        error = self._fails(SavePart) or self._fails_to_switch()
        if self.to_save > 0 and not error:
            return
        self.saving, saved = None, None
        if not error:
            name = f"{effect.step}/{self.number}/{self.incarnation}/{effect.claim_epoch}"
            saved = SavedFiles(name, 1, 1, shard_sizes(self.spec))
            shards = self.spec.layout.shuffle_partitions
            self.world.store[saved.manifest] = StoredPart(
                self.number, effect.step, self.pinned, shards, self.incarnation
            )
        self.answers.append(PartSaved(effect.claim_epoch, effect.command_serial, saved, error, self.now_ms))

    def _fails(self, kind: type) -> str:
        if self.trouble is not kind:
            return ""
        self.trouble = None
        return f"{kind.__name__} failed"

    def _fails_to_switch(self) -> str:
        status = self.world.view.status()
        told = None if status is None else status.layout
        switches = told is not None and told.phase is LayoutPhase.SWITCHING
        return "no room is left" if switches and self.world.saves_no_last_step else ""

    def _drop(self, effect: DropParts) -> None:
        drop(self.world, self.number, self.incarnation, effect)

    def _end(self, answer: NodeEvent) -> None:
        self.queue.popleft()
        self.cancelled = max(0, self.cancelled - 1)
        self.to_write = None
        self.answers.append(answer)

    def _open(self, effect: OpenEngine) -> None:
        self._record()
        if effect.create:
            check_created(self.world, effect.step, self.spec.stateful)
            self.history = tuple(
                signature_of(self.world, boundary, self.number) for boundary in chain(self.world, effect.step)
            )
            self.directory.states = {effect.step: self.history}
            self.directory.assignment = self.spec.assignment
        elif effect.step in self.directory.openable(self.spec.assignment):
            self.history = self.directory.states[effect.step]
            self.directory.states = {
                step: kept for step, kept in self.directory.states.items() if step <= effect.step
            }
        elif effect.checkpoint is not None and (saved := self._held(effect.checkpoint)) is not None:
            self.history = saved
            self.directory.states = {effect.step: saved}
            self.directory.assignment = self.spec.assignment
        else:
            self._end(self._failed(FailureKind.LOST, f"step {effect.step} is not there"))
            return
        check_opened(self.world, self.spec, effect.step, self.number, self.history)
        self.opened = True
        self.ran = self.ready = None
        self.step = effect.step
        self._reached(effect.step)
        self._end(EngineOpened(effect.step, self.now_ms))

    def _run(self, effect: RunStep) -> bool:
        work = effect.work
        if self.to_write is None:
            if not self.opened:
                self._end(self._failed(FailureKind.LOST, "not open"))
                return True
            self._record()
            require(self.ran is None, "an attempt is taken back before the next one runs", (self.ran, work))
            require(self.ready in (None, work), "what was begun is run, or taken back", (self.ready, work))
            self.ready = None
            check_not_void(self.world, work.step - 1, self.number, self.history)
            require(
                self.step == made_by(self.world, work.step - 1),
                "an engine runs the step after the last",
                (work.step, self.step, self.history),
            )
            self.ran = work
            self.written = []
            self.exchanging.begin()
            if effect.expected is None:
                check_begun(self.world, work)
                if self._expired(work):
                    self._lose("input has expired")
                    return True
            if effect.expected is not None and self.exchanging.is_gone(effect.expected):
                self._lose(f"{GONE} in step {work.step}")
                return True
            self.to_write = self._to_write(work, 0) if effect.expected is None else []
            if effect.expected is not None:
                check_rerun(effect.expected, self.spec.nodes)
                check_layout(self.world, self.spec, effect.expected.step)
                self.exchanging.take_again(work, effect.expected)
        if self.to_write:
            return self._write(work)
        self.world.exchanged.wrote.add((work.token, self.incarnation, 0))
        self._end(AttemptWritten(work.step, self._result(work), self.now_ms))
        return True

    def _lose(self, error: str) -> None:
        """What the step reads is gone."""
        self.ran, self.opened = None, False
        self._end(self._failed(FailureKind.INPUT_GONE, error))

    def _run_stage(self, effect: RunStage) -> bool:
        work = self.ran
        if not self.opened or work is None:
            self._end(self._failed(FailureKind.LOST, "not open"))
            return True
        if self.to_write is None:
            self.world.exchanged.check_begins(work.token, effect.stage)
            self.exchanging.take(self.spec, effect.stage, effect.received, work.token)
            self.to_write = self._to_write(work, effect.stage)
        if self.to_write:
            return self._write(work)
        self.world.exchanged.wrote.add((work.token, self.incarnation, effect.stage))
        self._end(AttemptWritten(work.step, self._result(work), self.now_ms, effect.stage))
        return True

    def _to_write(self, work: StepWork, stage: int) -> list[tuple[int, int]]:
        sends = self.exchanging.slots(self.spec, work, stage)
        if stage + 1 < stages_of(self.spec):
            return sends
        return [
            *sends,
            *((output, partition) for output, several in enumerate(work.writers) for partition in several),
        ]

    def _expired(self, work: StepWork) -> bool:
        """Whether Kafka has no longer what a new step needs. What was committed can be read
        for ever, so that all can go on."""
        earliest = {
            (item.name, partition): offset
            for item, offsets in zip(self.world.spec.inputs, self.world.input_earliest, strict=True)
            for partition, offset in enumerate(offsets)
        }
        return any(part.to > part.from_ < earliest[part.input, part.partition] for part in self._mine(work))

    def _mine(self, work: StepWork) -> list[InputRange]:
        spec = self.spec
        items = {item.name: item for item in spec.inputs}
        return [
            part
            for part in work.division
            if node_of(items[part.input], spec.nodes, part.partition) == self.number
        ]

    def _write(self, work: StepWork) -> bool:
        assert self.to_write is not None
        output, partition = self.to_write.pop()
        records = sum(part.to - part.from_ for part in work.division) % 5
        try:
            if output < 0:
                read = rows_of(self.spec, self._mine(work))
                self.exchanging.send(self.spec, -1 - output, partition, work, read)
            else:
                self.written.append(
                    self.world.write(output, partition, records, work.step, work.token, self.incarnation)
                )
        except NotAdded:
            self.to_write.append((output, partition))
            return False
        except Fenced:
            self._end(self._failed(FailureKind.FENCED, "fenced"))
            self.opened = False
            return True
        return True

    def _result(self, work: StepWork) -> StepResult:
        inputs = tuple(
            InputSlice(
                part.input,
                part.topic,
                part.topic_id,
                part.partition,
                part.from_,
                part.to,
                part.to - part.from_,
                "0" * 32,
            )
            for part in self._mine(work)
        )
        moved = any(part.to > part.from_ for part in work.division) and self.random.random() < 0.1
        return StepResult(
            inputs,
            tuple(self.written),
            (),
            moved,
            sent=tuple(self.exchanging.sent),
            taken=self.exchanging.counts(),
            event_times=self.exchanging.times(self.spec),
        )

    def _finish(self, effect: FinishStep) -> None:
        if not self.opened:
            self._end(self._failed(FailureKind.LOST, "not open"))
            return
        assert self.ran is not None
        step = effect.step
        made = signature(self.ran, self.exchanging.rows(), effect.watermarks)
        newest = self.world.boundaries[step - 1].watermarks if step <= len(self.world.boundaries) else ()
        require(effect.watermarks == newest, ONE_WATERMARK, (effect, newest))
        check_finish(self.world, self.ran, step, made, self.number)
        self.step, self.history = step, (*self.history, made)
        self.ran = None
        self._record()
        self.recording = (step, self.history)
        self._reached(step)
        self._end(StepFinished(step, self._openable(), self.now_ms))
