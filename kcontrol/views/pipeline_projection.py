"""What both logs say of one pipeline, folded as far as they were read: the source of
everything that anybody is shown.

The command line reads the logs to their ends and folds once; the HTTP server keeps folding what comes.
Neither holds anything that the logs don't.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcontrol.core.log import control_view, steps_view
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Checkpoint,
    CheckpointRequest,
    Desired,
    InputDesired,
    InputSpec,
    LayoutRequest,
    Logged,
    LoggedStep,
    PipelineSpec,
    Received,
    ReceivedPartition,
    Resume,
    SkipRequest,
    StepBoundary,
)
from kcontrol.core.step.gaps import records_between
from kcontrol.core.step.offsets import arrived, first_offset, next_offset, partition_count
from kcontrol.errors import NotFoundError
from kcontrol.sessions.ports import Kept, Reach
from kcontrol.views.signs_of_life import SignsOfLife
from kcontrol.views.step_index import StepIndex
from kcontrol.views.waiting import InputBacklog

RECENT_STEPS = 1_000
"""So many of the newest boundaries are kept as they are; older ones are read from the log
again when they are asked for."""
REMEMBERED_REQUESTS = 1_000
"""So many of the newest requests are remembered, to tell one that was superseded from one that never was."""

Request = Desired | Resume | CheckpointRequest | InputDesired | SkipRequest | LayoutRequest
"""What a user asks of a pipeline."""


def never_submitted(pipeline: str) -> NotFoundError:
    """The error of whoever looks for a pipeline that is not there."""
    return NotFoundError(
        f"there is no pipeline {pipeline!r} in this cluster; a node submits one when it starts: "
        "kcontrol run FILE.py"
    )


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of an input. `committed` is where the next step begins; `received` how far its node has
    seen it, None if no node has said; `end` how far Kafka said that it reaches, None if it was not asked.
    `gaps`: how many offsets beyond `committed` are known to hold no record."""

    partition: int
    start: int
    committed: int
    received: int | None
    end: int | None = None
    gaps: int = 0

    @property
    def waiting(self) -> int:
        """Offsets beyond the last committed step that may hold a record: an upper bound of records, because
        not all of those that hold none, as markers of transactions do, are known."""
        return max(0, max(self.received or 0, self.end or 0) - self.committed - self.gaps)


@dataclass(frozen=True, slots=True)
class Lag:
    """How much committed input of one input waits beyond the last committed step, as
    Kafka says, or else its nodes."""

    input: str
    partitions: tuple[PartitionLag, ...]
    since_ms: int | None
    """When the oldest of it was reported; None when nothing waits, or it is not known since when."""
    unasked: str = ""
    """Why Kafka could not be asked how far the input reaches, so that only what its nodes have said
    counts."""

    @property
    def offsets(self) -> int:
        """Over all partitions."""
        return sum(part.waiting for part in self.partitions)


class PipelineProjection:
    """One pipeline. `control_offset` and `steps_offset` are the newest that were folded of
    each log, -1 before the first.

    requests: by id, the newest, each with its offset in the control log.
    """

    def __init__(self, pipeline: str) -> None:
        self.view = PipelineView.empty(pipeline)
        self.committed = StepsView(pipeline)
        self.index = StepIndex()
        self.recent: deque[LoggedStep] = deque(maxlen=RECENT_STEPS)
        self.requests: OrderedDict[str, tuple[int, Request]] = OrderedDict()
        self.signs = SignsOfLife()
        self.kept: Mapping[str, Kept | str] = {}
        """By topic of an input, what Kafka said last that it has of it, or why that is not known."""
        self.control_offset = -1
        self.steps_offset = -1
        self._waiting = InputBacklog()
        self._ends: dict[str, tuple[int, ...]] = {}
        self._unasked: dict[str, str] = {}

    @property
    def pipeline(self) -> str:
        return self.view.pipeline

    def see_control(self, records: Iterable[Logged]) -> None:
        """The next control records, in offset order; those of other pipelines change nothing."""
        for logged in records:
            self.view = control_view.evolve(self.view, logged)
            self.signs.see(self.view, logged)
            self.control_offset = max(self.control_offset, logged.offset)
            record = logged.record
            if isinstance(record, Received) and record.incarnation == self.view.incarnation(record.node):
                self._waiting.reported(record, logged.timestamp_ms, self.committed.next_from)
            elif isinstance(record, Request):
                self.requests[record.request_id] = logged.offset, record
                if len(self.requests) > REMEMBERED_REQUESTS:
                    self.requests.popitem(last=False)

    def see_steps(self, records: Iterable[LoggedStep]) -> None:
        """The next records of the log of steps. Raises DamagedRecordError as `steps_view.evolve` does."""
        for logged in records:
            self.committed = steps_view.evolve(self.committed, logged)
            self.steps_offset = logged.offset
            if isinstance(logged.record, StepBoundary):
                self.index.add(logged.record, logged.offset)
                while self.recent and _step(self.recent[-1]) >= logged.record.step:
                    self.recent.pop()
                self.recent.append(logged)
        self.index.forget_before(self.committed.first)
        while self.recent and _step(self.recent[0]) < self.committed.first:
            self.recent.popleft()
        self._waiting.committed(self.committed.next_from)

    def see_ends(self, reaches: Mapping[str, Reach | str], at_ms: int | None) -> None:
        """How far Kafka says that topics reach, by topic, or why it did not say.

        at_ms: when, for whoever looks on; None for one look, which says nothing of since when something
        waits.
        """
        for item in self.spec().inputs:
            found = reaches.get(item.topic)
            if isinstance(found, Reach) and found.topic_id != item.topic_id:
                found = (
                    f"topic {item.topic!r} was deleted or recreated: it is not the one that the "
                    "pipeline reads any more"
                )
            if isinstance(found, Reach):
                self._ends[item.name] = found.ends
                self._unasked.pop(item.name, None)
                if at_ms is not None:
                    self._waiting.reaches(
                        item.name, enumerate(found.ends), at_ms, self._begins(item, len(found.ends))
                    )
            elif found is not None:
                self._ends.pop(item.name, None)
                self._unasked[item.name] = found

    def _begins(self, item: InputSpec, count: int) -> dict[tuple[str, int], int]:
        return {(item.name, number): next_offset(self.committed, item, number) for number in range(count)}

    def forget_steps(self) -> None:
        """As before the first step: they will be seen from the beginning of what is left of the log."""
        self.committed, self.index, self.steps_offset = StepsView(self.pipeline), StepIndex(), -1
        self.recent.clear()

    def begin_at(self, newest: Checkpoint) -> None:
        """Before the first step: they will be seen from where that checkpoint, the newest
        one, says that reading may begin.

        Older steps that are in the log are then unknown to `index` and `recent`; all else is as it were.
        """
        self.committed = StepsView.begun_at(self.pipeline, newest)

    def spec(self) -> PipelineSpec:
        """The definition in force; NotFoundError when there is none."""
        spec = self.view.spec()
        if spec is None:
            raise never_submitted(self.pipeline)
        return spec

    def input(self, name: str) -> InputSpec:
        """Raises NotFoundError when there is no such input, or no such pipeline."""
        spec = self.spec()
        found = next((item for item in spec.inputs if item.name == name), None)
        if found is None:
            known = ", ".join(item.name for item in spec.inputs)
            raise NotFoundError(f"pipeline {self.pipeline!r} has no input {name!r}; it has {known}")
        return found

    def lag_of(self, input_name: str) -> Lag:
        """Raises NotFoundError when there is no such input."""
        return self._lag(self.input(input_name))

    def lags(self) -> list[Lag]:
        """By input."""
        return [self._lag(item) for item in self.spec().inputs]

    def late_rows(self) -> int:
        """That watermarks have dropped in `recent`, over all queries."""
        boundaries = (logged.record for logged in self.recent)
        return sum(late.rows for one in boundaries if isinstance(one, StepBoundary) for late in one.late_rows)

    def _lag(self, item: InputSpec) -> Lag:
        seen, ends = arrived(self.spec(), item, self.view), self._ends.get(item.name, ())
        count = max(partition_count(self.committed, item, seen), len(ends))
        partitions = tuple(
            self._part(item, number, seen.get(number), ends[number] if number < len(ends) else None)
            for number in range(count)
        )
        waits = any(part.waiting for part in partitions)
        return Lag(
            item.name,
            partitions,
            self._waiting.since_ms(item.name) if waits else None,
            self._unasked.get(item.name, ""),
        )

    def _part(
        self, item: InputSpec, number: int, seen: ReceivedPartition | None, end: int | None
    ) -> PartitionLag:
        start, committed = first_offset(item, number), next_offset(self.committed, item, number)
        if seen is None:
            return PartitionLag(number, start, committed, None, end)
        gaps = max(0, seen.to - committed) - records_between(seen.gaps, committed, seen.to)
        return PartitionLag(number, start, committed, seen.to, end, gaps)


def _step(logged: LoggedStep) -> int:
    return logged.record.step if isinstance(logged.record, StepBoundary) else 0
