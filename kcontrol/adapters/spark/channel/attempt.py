"""What the driver knows of one attempt at a step: who may write, what was read, what went wrong, and how it
ends.

Many threads meet here: the channel's (tasks asking for leave, reporting what they read), one for each query's
batch (waiting for the decision) and the engine's. The rules that keep two writers off one partition live in
`grant`, and in `sharing` for writers that take turns; they hold even if Spark runs a task again without telling
anyone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.spark.channel.exchanging import Exchanging, Stages
from kcontrol.adapters.spark.channel.held_writers import BEGIN_WAIT_S, HeldWriters
from kcontrol.adapters.spark.channel.input_check import InputCheck, recorded_version
from kcontrol.adapters.spark.channel.messages import RunToRead
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.adapters.spark.channel.sharing import SharedWriting
from kcontrol.core.model import (
    ExchangeSlice,
    FailureKind,
    OutputSlice,
    SourceSplit,
    StepBoundary,
    StepWork,
)
from kcontrol.errors import StepFailedError


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A range that a source task read to its end."""

    input: str
    partition: int
    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Records and digest of what was read."""

    records: int
    digest: str


class AttemptCancelledError(Exception):
    """Raised in a query's batch when its attempt is over, so that Spark does not record the batch."""


class AttemptLedger:
    """One try at `work`; with `expected` a replay, in which nothing is written. Every
    method may be called by any thread."""

    def __init__(
        self,
        serial: int,
        work: StepWork,
        expected: StepBoundary | None,
        queries: frozenset[str],
        own_input: frozenset[tuple[str, int]] | None = None,
        input_check: InputCheck | None = None,
        stages: Stages | None = None,
        after: int | None = None,
        begun: bool = True,
    ) -> None:
        """queries: whose results are waited for, and the exchanges that are delivered.
        own_input: (input, partition) of all that this node reads, the division being that
        of all nodes; None: everything.
        input_check: ends a replay as soon as it has read something else than the log says;
        None: somebody compares later. stages: of those queries; None: there is one. after: the step that the queries hold;
        None: the number before. begun: whether its step is known to be the next one; else nobody gets leave to write before
        `begin`."""
        self._own_input = own_input
        self._input_check = input_check
        self.digest_version = recorded_version(expected, own_input)
        """Of the digests of what is read."""
        self.serial = serial
        self.work = work
        self.after = work.step - 1 if after is None else after
        self.expected = expected
        self.started_s = time.monotonic()
        self._queries = queries
        self._changed = threading.Condition()
        self._failure: StepFailedError | None = None
        self._decided: bool | None = None
        self.taken = False  # Set by whoever lets tasks work for it, before it has begun.
        self._held = HeldWriters(self._changed, begun)
        self._planned: set[str] = set()
        self._results: dict[str, QueryResult] = {}
        self._writers: dict[tuple[str, int], int] = {}
        self._written: dict[tuple[str, int], tuple[OutputSlice, ...]] = {}
        self._writer_of: dict[tuple[str, int], int] = {}
        self._sharing: set[str] = set()
        """Queries whose writers share their partitions."""
        self._shared = SharedWriting(work.step, self._changed, self._refuse_late, self._fail_locked)
        stages = stages or Stages(0, dict.fromkeys(queries, 0), {})
        self._stages = stages
        self.watermarks: Mapping[str, int] = {}
        """By query: the watermark after the step, once it is decided, where nodes share one."""
        self.exchanging = Exchanging(work.step, stages, self._changed, self._refuse_late, self._fail_locked)
        self._announced: dict[tuple[str, int], frozenset[int]] = {}
        self._read: dict[tuple[str, ReadRange], Counted] = {}
        self.phases_ms: dict[str, float] = {}
        """When each phase was reached, since the attempt was made: planned and written by the last query,
        reading and writing by the first task; recorded, which is the step before, by Spark, and so less than
        0 if it was by then."""

    def source_tasks(self, input_name: str) -> list[tuple[SourceSplit, ...]]:
        """The splits of one input that this node reads, a tuple for each source task, in the layout's order;
        empty splits are left out. Other nodes' tasks have the same numbers."""
        tasks: dict[int, list[SourceSplit]] = {}
        for split in self.work.layout.splits:
            own = self._own_input is None or (split.input, split.partition) in self._own_input
            if own and split.input == input_name and split.from_ < split.to:
                tasks.setdefault(split.task, []).append(split)
        return [tuple(tasks[number]) for number in sorted(tasks)]

    # --- from tasks, over the channel -----------------------------------------------------------------------

    def announce(
        self, query: str, task_attempt: int, partitions: frozenset[int], attempt_number: int
    ) -> None:
        """A source task is about to read these partitions. Raises StepFailedError when it is a re-run or too
        late."""
        with self._changed:
            self._refuse_late()
            self._refuse_rerun(f"a source task of query {query!r}", attempt_number)
            self._reached("reading")
            known = self._announced.get((query, task_attempt), frozenset())
            self._announced[query, task_attempt] = known | partitions

    def begin_stage(self, stage: int, received: Sequence[ExchangeSlice]) -> None:
        """See `Exchanging.begin`. Raises what has ended the attempt."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self.exchanging.begin(stage, received)

    def begin_reading(
        self, query: str, exchange: str, task: int, task_attempt: int, attempt_number: int
    ) -> tuple[RunToRead, ...]:
        """A source task is about to read its part of an exchange: this. Raises StepFailedError when it is a re-run,
        too late or too early."""
        self.announce(query, task_attempt, frozenset(), attempt_number)
        return self.exchanging.part(query, exchange, task)

    def report_read(self, query: str, what: ReadRange, counted: Counted) -> None:
        """A source task has read a range to its end. A range counts once; reading it twice must give the
        same.

        Raises StepFailedError when it does not, or when a replay has read a partition to its
        end and it is not what it was.
        """
        with self._changed:
            if self._input_check is not None and not any(known == what for _, known in self._read):
                at = (what.from_, what.to)
                wrong = self._input_check.read(
                    what.input, what.partition, at, counted.records, counted.digest
                )
                if wrong:
                    raise self._fail_locked(FailureKind.DIGEST, str(wrong[0]))
            before = self._read.setdefault((query, what), counted)
            if before != counted:
                raise self._fail_locked(
                    FailureKind.LOST,
                    f"step {self.work.step}: input {what.input!r} partition {what.partition} offsets "
                    f"{what.from_} to {what.to} gave {before.records} records and, read again, "
                    f"{counted.records}; the topic changed while it was read",
                )

    def grant(self, query: str, writer: int, task_attempt: int, attempt_number: int) -> None:
        """Leave for one writer task of one query, given once. Raises StepFailedError
        (LOST), which ends the attempt."""
        with self._changed:
            if not self._held.wait(lambda: self._failure is not None):
                raise self._fail_locked(
                    FailureKind.LOST,
                    f"step {self.work.step} was made ready for and not begun within {BEGIN_WAIT_S:.0f} s",
                )
            self._refuse_late()
            who = f"writer {writer} of query {query!r}"
            self._refuse_rerun(who, attempt_number)
            if (query, writer) in self._writers:
                raise self._fail_locked(
                    FailureKind.LOST,
                    f"step {self.work.step}: Spark ran {who} twice (tasks {self._writers[query, writer]}, "
                    f"{task_attempt}); two writers of one partition would mix their rows, so the attempt "
                    "ends",
                )
            self._reached("writing")
            self._writers[query, writer] = task_attempt

    def grant_classes(
        self, query: str, writer: int, task_attempt: int, attempt_number: int, modulus: int
    ) -> list[int]:
        """Leave for a writer that keeps the rows of the input partitions it read: the
        residues of those modulo `modulus`.

        Raises StepFailedError as `grant` does, and when another writer of the query holds one of the
        residues.
        """
        self.grant(query, writer, task_attempt, attempt_number)
        with self._changed:
            residues = {
                partition % modulus for partition in self._announced.get((query, task_attempt), frozenset())
            }
            for residue in residues:
                owner = self._writer_of.setdefault((query, residue), task_attempt)
                if owner != task_attempt:
                    raise self._fail_locked(
                        FailureKind.LOST,
                        f"step {self.work.step}: tasks {owner} and {task_attempt} of query {query!r} both "
                        f"read input partitions that are {residue} modulo {modulus}, so they would write to "
                        "one partition",
                    )
            return sorted(residues)

    def grant_turns(self, query: str, writer: int, task_attempt: int, attempt_number: int) -> None:
        """Leave for a writer that shares all partitions with its siblings: it takes turns with them. Raises
        StepFailedError as `grant` does."""
        self.grant(query, writer, task_attempt, attempt_number)
        with self._changed:
            self._sharing.add(query)
            self._shared.join((query, writer))

    def take_turns(
        self,
        query: str,
        writer: int,
        task_attempt: int,
        output: str,
        back: Sequence[WriteTurn],
        wanted: Sequence[int],
        turn_s: float,
    ) -> tuple[WriteTurn, ...]:
        """See `Turns.take`. Raises StepFailedError without leave, or too late; and when a turn of another writer
        is out for longer than `turn_s`."""
        with self._changed:
            self._refuse_without_leave(query, writer, task_attempt, "takes turns as")
            return self._shared.take((query, writer), output, back, wanted, turn_s)

    def report_written(
        self, query: str, writer: int, task_attempt: int, slices: tuple[OutputSlice, ...]
    ) -> None:
        """A writer that has leave has written all that it was given. Raises
        StepFailedError without leave, or too late."""
        with self._changed:
            self._refuse_without_leave(query, writer, task_attempt, "says what it wrote as")
            self._shared.leave((query, writer))
            self._written[query, writer] = slices

    def report_sent(
        self, query: str, writer: int, task_attempt: int, slices: tuple[ExchangeSlice, ...]
    ) -> None:
        """As `report_written`, of a writer that sends its rows to nodes."""
        with self._changed:
            self.report_written(query, writer, task_attempt, ())
            self.exchanging.report_sent(query, writer, slices)

    def written(self, query: str) -> tuple[OutputSlice, ...]:
        """What a query's writers wrote, once their job has ended well, by output and partition.

        Raises StepFailedError (LOST) when one of those that had leave has not said.
        """
        with self._changed:
            silent = [
                writer
                for name, writer in self._writers
                if name == query and (name, writer) not in self._written
            ]
            if silent:
                raise self._fail_locked(
                    FailureKind.LOST,
                    f"step {self.work.step}: writer {silent[0]} of query {query!r} has not said what it "
                    "wrote, though Spark says that its job has ended well",
                )
            slices = [item for (name, _), said in self._written.items() if name == query for item in said]
            if query in self._sharing:
                return self._shared.together(slices, replay=self.expected is not None)
            return tuple(sorted(slices, key=lambda item: (item.output, item.partition)))

    def _reached(self, phase: str) -> None:
        self.phases_ms.setdefault(phase, (time.monotonic() - self.started_s) * 1_000)

    def _refuse_late(self) -> None:
        if self._failure is not None or self._decided is not None:
            raise StepFailedError(FailureKind.LOST, f"step {self.work.step}: this attempt is over")

    def _refuse_without_leave(self, query: str, writer: int, task_attempt: int, what: str) -> None:
        self._refuse_late()
        if self._writers.get((query, writer)) != task_attempt:
            raise self._fail_locked(
                FailureKind.LOST,
                f"step {self.work.step}: task {task_attempt} {what} writer {writer} of query {query!r}, and has no "
                "leave to write",
            )

    def _refuse_rerun(self, who: str, attempt_number: int) -> None:
        if attempt_number != 0:
            raise self._fail_locked(
                FailureKind.LOST,
                f"step {self.work.step}: Spark started {who} again, as its attempt {attempt_number + 1}; an "
                "attempt never runs a task twice",
            )

    # --- how it ends ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Its step is the next one: writers may have leave."""
        self._held.begin()

    @property
    def held_ms(self) -> int:
        """For how long writers waited for that."""
        return self._held.held_ms

    def fail(self, kind: FailureKind, message: str) -> StepFailedError:
        """Record why the attempt failed. The first reason counts: later ones are its consequences."""
        with self._changed:
            return self._fail_locked(kind, message)

    def _fail_locked(self, kind: FailureKind, message: str) -> StepFailedError:
        if self._failure is None:
            self._failure = StepFailedError(kind, message)
            self._changed.notify_all()
        return self._failure

    def cancel(self, message: str) -> None:
        """End the attempt unless it is decided: no grant is given from now on and waiting batches fail."""
        with self._changed:
            if self._decided is None:
                self._decided = False
                self._fail_locked(FailureKind.LOST, message)
                self._changed.notify_all()

    def finish(self, watermarks: Mapping[str, int] | None = None) -> None:
        """Let the waiting batches end well. watermarks: by query, that after the step, where nodes share one. Raises
        the failure if there is one."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self.watermarks = watermarks or {}
            self._decided = True
            self._changed.notify_all()

    @property
    def finished(self) -> bool:
        """Its batches were let go: it can't be cancelled any more."""
        return self._decided is True

    @property
    def failure(self) -> StepFailedError | None:
        return self._failure

    # --- from the queries' batches and the engine -----------------------------------------------------------

    def recorded(self, at_s: float | None) -> None:
        """Spark has recorded the step before, at this time of the monotonic clock; None: there was none to
        record."""
        if at_s is not None:
            self.phases_ms["recorded"] = (at_s - self.started_s) * 1_000

    def planned(self, query: str) -> None:
        """Spark has planned a query's batch and handed it over."""
        with self._changed:
            self._planned.add(query)
            if self._planned >= self._queries:
                self._reached("planned")

    def deliver(self, query: str, result: QueryResult) -> None:
        """A query's batch has done its work."""
        with self._changed:
            self._results[query] = result
            if self._results.keys() >= self._queries:
                self._reached("written")
            self._changed.notify_all()

    def wait_stage(self, query: str) -> None:
        """Block a query's batch until the rows that its stage works on are there. Raises AttemptCancelledError when the
        attempt ends before."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self.exchanging.may_work(query) or self._decided is not None or self._failure is not None
                )
            )
            if self._decided is not None or self._failure is not None:
                raise AttemptCancelledError(f"step {self.work.step}: the attempt was cancelled")

    def wait_decision(self) -> None:
        """Block a query's batch until `finish` (returns) or `cancel` or a failure
        (raises AttemptCancelledError)."""
        with self._changed:
            self._changed.wait_for(lambda: self._decided is not None or self._failure is not None)
            if self._decided is not True:
                raise AttemptCancelledError(f"step {self.work.step}: the attempt was cancelled")

    def wait_results(
        self, timeout_s: float, stage: int | None = None, past_s: float = 0.0
    ) -> Mapping[str, QueryResult]:
        """Block until every query has delivered, of the stages up to this one; None: of all.

        past_s: how much of the time is over already. Raises the failure, or StepFailedError (LOST) when it takes too long.
        """
        with self._changed:
            wanted = self._queries if stage is None else self._stages.until(stage)
            done = self._changed.wait_for(
                lambda: self._failure is not None or self._results.keys() >= wanted,
                timeout=max(0.0, timeout_s - past_s),
            )
            if self._failure is not None:
                raise self._failure
            if not done:
                missing = ", ".join(sorted(wanted - self._results.keys()))
                raise self._fail_locked(
                    FailureKind.LOST,
                    f"step {self.work.step}: queries {missing} did not end within {timeout_s:.0f} s",
                )
            return dict(self._results)

    def reads(self) -> dict[ReadRange, Counted]:
        """What was read, each range once. Raises StepFailedError (LOST) if two queries
        found different records in one."""
        with self._changed:
            seen: dict[ReadRange, Counted] = {}
            for (query, what), counted in self._read.items():
                if seen.setdefault(what, counted) != counted:
                    raise self._fail_locked(
                        FailureKind.LOST,
                        f"step {self.work.step}: query {query!r} found other records than its siblings in "
                        f"input {what.input!r} partition {what.partition}, offsets {what.from_} to {what.to}",
                    )
            return seen
