"""What the sessions need of the world, named for what it is, not for what implements it.

Adapters implement these; fakes in tests/contract implement them too and pass the same suites. All coroutines
may be cancelled. All raise `kcontrol.errors`: `FencedError` when somebody newer owns the transaction,
`RetriableError` when a passing fault outlasted its retries, `CommitUnknownError` when the answer to a commit
was lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    ControlRecord,
    ExchangeSlice,
    ExchangeSpec,
    InputSpec,
    Logged,
    LoggedStep,
    PipelineSpec,
    ReceivedPartition,
    SavedFiles,
    StepBoundary,
    StepResult,
    StepWork,
    Watermark,
)


class Clock(Protocol):
    """The only source of time."""

    def now_ms(self) -> int:
        """The wall clock: milliseconds since the Unix epoch. It may be set at any time, so nothing may wait
        for it."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment before the process began. Never goes back and
        never jumps: deadlines count this."""
        ...


class ControlLog(Protocol):
    """One partition of the control topic, as seen by one process."""

    async def append(self, records: Sequence[ControlRecord], forget: Sequence[str] = ()) -> list[int]:
        """Write in order (idempotent producer, acks=all), tombstones last; returns the offsets when
        acknowledged."""
        ...

    async def read_to_end(self) -> list[Logged]:
        """All records from this reader's position to the end offset at the time of the call; the position
        moves on."""
        ...

    async def read_through(self, offset: int) -> list[Logged]:
        """The same, until the record at `offset` was read, which this process knows to be there: it has
        written it. Nothing that lies before is missed then, however old the end is that a broker shows."""
        ...

    def tail(self) -> AsyncIterator[list[Logged]]:
        """From this reader's position on, for ever, in chunks, as records arrive (a waiting fetch). Shares
        the position with `read_to_end`, which may be called while a tail is waiting; each offset is returned
        once, by one of the two."""
        ...

    async def close(self) -> None: ...


class StepsLog(Protocol):
    """The committed records of one pipeline's steps topic, as seen by one process."""

    async def begin_at_checkpoint(self) -> Checkpoint | None:
        """Before the first read: look from the end for the newest checkpoint and stand at its `begin_offset`.

        None, and nothing has moved, if there is none, or it does not say where to begin. The time that it
        takes, and that the reading then takes, depends on what was committed since the oldest checkpoint that
        is kept, not on the log's length.
        """
        ...

    def begin_at_start(self) -> None:
        """Stand at the beginning again."""
        ...

    async def read_to_end(self) -> list[LoggedStep]:
        """As in ControlLog, up to the last stable offset at the time of the call, as one
        broker knows it: it may be old."""
        ...

    def tail(self) -> AsyncIterator[list[LoggedStep]]: ...

    async def close(self) -> None: ...


class OwnedStepsLog(StepsLog, Protocol):
    """A steps log as the owner of the pipeline's transaction reads it."""

    @property
    def position(self) -> int:
        """The offset after the last one that was read, of markers and of what compaction removed too."""
        ...

    async def read_settled(self, at_least: int) -> list[LoggedStep]:
        """For an owner who has just fenced: the records from the position on, once no transaction is open in
        the topic and the offset `at_least` is reached.

        There may be more all the same. `Transaction.commit_step` finds out, by where its record comes to lie.
        """
        ...

    def pass_over(self, offset: int) -> None:
        """Read on from there: what lies between is the owner's own, and known."""
        ...


class StepsArchive(StepsLog, Protocol):
    """A steps log of which old parts can be read again."""

    async def read_range(self, from_: int, to: int) -> list[LoggedStep]:
        """The committed records at offsets [from_, to), whatever was read before; moves no position."""
        ...


class WatchedControlLog(ControlLog, Protocol):
    """A control log that tells what it left out."""

    @property
    def rejected_by(self) -> Mapping[str, int]:
        """Records so far that did not belong there or could not be read, by reason."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """A topic as the broker knows it now. ends: by partition, the offset after the last committed record."""

    topic_id: str
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What Kafka has of a topic, and for how long.

    earliest: by partition, the first offset that is there. expiring: the first one of a record whose time by
    `retention_ms` is not nearly over; None if nothing goes because of its age. retention_ms, retention_bytes:
    -1 for no such limit.
    """

    topic_id: str
    earliest: tuple[int, ...]
    expiring: tuple[int, ...] | None
    retention_ms: int
    retention_bytes: int


class ExchangePurge(Protocol):
    """Deletes what nodes have sent each other in steps that are not in the log any more."""

    async def purge(
        self, exchanges: Sequence[ExchangeSpec], first_step: int, dropped: Sequence[int] = ()
    ) -> None:
        """All that was sent before `first_step`, the oldest step that is in the log. dropped: the steps that went with the
        newest checkpoint.

        Raises nothing of Kafka's: what could not be deleted is deleted with the next call.
        """
        ...


class ProjectionSource(Protocol):
    """The logs of a whole cluster, for a process that follows all pipelines."""

    async def partitions(self) -> int:
        """How many the control topic has. Raises ClusterError (also TopicError) or RetriableError."""
        ...

    async def control(self, partition: int) -> WatchedControlLog: ...

    def steps(self, pipeline: str) -> StepsArchive: ...

    async def reach(self, pipeline: str, item: InputSpec) -> Reach:
        """Of an input's topic. Raises TopicError when there is none."""
        ...

    async def ends(self, topics: Collection[str]) -> Mapping[str, Reach | str]:
        """How far topics reach, by name; where that can't be told, why. Raises
        RetriableError: Kafka is away."""
        ...

    async def close(self) -> None:
        """Let go of what `ends` keeps open."""
        ...

    async def kept(self, topics: Collection[str]) -> Mapping[str, Kept | str]:
        """What Kafka has of topics; or why that can't be told, in words."""
        ...

    async def prepare(self, spec: PipelineSpec) -> None:
        """Check the topics that a definition names, and make kcontrol's own for it. Raises
        TopicError, ConfigurationError."""
        ...


@dataclass(frozen=True, slots=True)
class NextTransaction:
    """What the answer to a commit says of the transaction after it, where Kafka gives each an epoch of its own.

    producer: its id and epoch. offset: of the record that was committed. end: where the steps topic ends when the
    commit's marker is in it, if all that came between is that.
    """

    producer: tuple[int, int]
    offset: int
    end: int


class Transaction(Protocol):
    """The step's transaction, owned by the coordinator."""

    @property
    def log_end(self) -> int:
        """The steps topic reaches at least up to this offset: the end of what Kafka has acknowledged to this
        owner."""
        ...

    async def init_producer(self, timeout_ms: int) -> tuple[int, int]:
        """InitProducerId: fences, aborts or completes what was open; returns
        (producer id, producer epoch)."""
        ...

    async def add_partitions(
        self, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None: ...

    async def commit_step(
        self,
        producer_id: int,
        producer_epoch: int,
        boundary: StepBoundary,
        expected_offset: int,
        forget: Sequence[str] = (),
    ) -> NextTransaction | None:
        """Write the boundary and the tombstones to the steps partition inside the transaction
        (acks=all), then EndTxn(commit). None: it takes another `init_producer` to know the next transaction.

        expected_offset: the end up to which the steps topic was read before the step was decided. Raises
        UnseenRecordError, and commits nothing, if what was written does not begin exactly there.
        """
        ...

    async def commit_checkpoint(
        self,
        producer_id: int,
        producer_epoch: int,
        checkpoint: Checkpoint | None,
        expected_offset: int,
        forget: Sequence[str],
        assignment: Assignment | None = None,
    ) -> None:
        """The same with a checkpoint instead of a boundary, or a change of the layout, or both."""
        ...

    async def prove_end(self, producer_id: int, producer_epoch: int) -> None:
        """Write a record to the steps partition inside a transaction (acks=all) that is not committed, so
        that `log_end` lies behind all that is. The next `init_producer` aborts it."""
        ...

    async def close(self) -> None: ...


Arrival = tuple[tuple[ReceivedPartition, ...], int]
"""All watched partitions of an input, and how many bytes were seen beyond the start."""
Arrivals = AsyncGenerator[Arrival, None]


class InputWatcher(Protocol):
    """Tells how far committed input reaches in the partitions of one input."""

    def arrivals(self) -> Arrivals:
        """First at once, then whenever an end or a topic id changes."""
        ...

    async def close(self) -> None: ...


class Held(StrEnum):
    """What Kafka has at an offset of an input that committed input has reached."""

    RECORD = "record"
    ABORTED = "aborted"
    """A record of a transaction that was aborted."""
    MARKER = "marker"
    """The end of a transaction."""
    GONE = "gone"
    """Nothing any more: compacted or deleted, or the topic is not the one that it was."""


class RecordLook(Protocol):
    """Looks single records of inputs up."""

    async def holds(self, item: InputSpec, partition: int, offset: int) -> Held | str:
        """What is there, or why that could not be asked."""
        ...

    async def records(self, item: InputSpec, partition: int, from_: int, to: int) -> int | str:
        """How many records offsets [from_, to) hold now, or why that could not be asked."""
        ...


class Engine(Protocol):
    """The Spark application of one node. One call at a time, except `cancel`, and `save` and `drop_parts`,
    which run beside the others, from a pin that the others don't touch, for as long as they need."""

    def openable(self) -> tuple[int, ...]:
        """Steps that could be opened from the node's own directory, newest first; () when
        there is nothing but `create`. A directory that was filled or made by another assignment than the spec's holds
        other shards, and counts for nothing."""
        ...

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        """The steps of those checkpoints of which all is there and can be read that this node needs: its own part or,
        of one that was saved by another assignment, the parts of all nodes that owned what it owns now
        (`saved_owners`, `owners_of`). Asked once, before all else.

        Raises KcontrolError when that can't be told now.
        """
        ...

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        """Cancel, stop the queries, roll the directory back to `step`, start the queries.

        create: empty the directory and begin after `step`, which is 0 unless the pipeline keeps no state.
        checkpoint: the one of `step`, if the log has it; when the directory does not hold the step, or is of another
        assignment, it is emptied and filled from this node's part of it or, where that was saved by another assignment,
        shard by shard from the parts of those that owned them.
        """
        ...

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        """One micro-batch of every query of the first stage. Raises StepFailedError. The batches wait, unrecorded,
        for `finish_step`.

        expected: replay this step, all stages of it, and write nothing. What it reads of exchanges are
        `runs_for(expected.exchanges, node)` (core/step/exchange.py). Queries that only send need not run; of those that
        do, `sent` of the result is compared.
        """
        ...

    def make_ready(self, work: StepWork) -> None:
        """The same work will be given to `run_step` once the step before it, which was written, is finished: what of it is
        neither seen by anybody nor on disk for good may be done beside that. Called while no call is under way, or beside one;
        returns at once. If other work is given, all of this must have been taken back, by `open` or by the engine itself."""
        ...

    async def run_stage(self, step: int, stage: int, received: Sequence[ExchangeSlice]) -> StepResult:
        """The queries of the next stage of the attempt that `run_step` began. What is for this node of all that was
        sent in the stages before lies at `received`: other nodes have written it in the step's own transaction, which
        is open. All but `sent` in the result is of all stages so far. Raises StepFailedError."""
        ...

    async def finish_step(self, step: int, watermarks: Sequence[Watermark] = ()) -> None:
        """Let the waiting batches end well, and don't wait until every query's batch is in Spark's commit
        log: the next call does. Until then `openable` has the step too.

        watermarks: of the queries that the spec names one of, for Spark to record and go on by in place of its own.
        """
        ...

    async def pin(self, step: int) -> None:
        """Between two steps, with `step` finished last or just opened: hold fast what opening it needs (hard
        links: milliseconds), whatever later steps and openings do. Replaces an earlier pin, whose `save` has
        ended. Raises KcontrolError: nothing is held."""
        ...

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        """Copy what is pinned to the location, the manifest last, and let go of the pin.

        Incarnation and claim epoch are in its paths, so that no two processes' tries share a file; another
        try of its own at the same step may overwrite one that was given up. When it is cancelled, or raises
        KcontrolError, nothing that counts is there. It ends soon after it is cancelled: the next pin waits
        for that.
        """
        ...

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None:
        """Delete this node's parts of every step up to the newest of the kept checkpoints that no kept one
        names; parts of later steps may still become checkpoints and stay. Doing it twice, or by an older
        incarnation, must do no harm."""
        ...

    def cancel(self) -> None:
        """End the running attempt, from any thread, at any time: nothing of it is
        written from now on by this engine."""
        ...

    async def close(self) -> None: ...


class EngineFactory(Protocol):
    """Makes the engine once the node's incarnation and the effective spec are known."""

    def __call__(
        self, spec: PipelineSpec, incarnation: int, on_failure: Callable[[BaseException], None]
    ) -> Engine: ...
