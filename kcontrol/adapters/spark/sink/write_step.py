"""A query's part of one step: its rows, written through tasks that the driver gives leave to.

How the rows find their writers follows from code and layout alone: a replay chooses alike. In a replay the
same tasks compute the same digests and write nothing, or only to the spool of a replay whose records are
wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.channel.sent_rows import place_of
from kcontrol.adapters.spark.channel.targets import OutputTarget, SendTarget
from kcontrol.adapters.spark.channel.write_job import JOB_PROPERTY, WriteJob
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.sink.spool import Spool
from kcontrol.adapters.spark.sink.writer_plan import Ways
from kcontrol.adapters.spark.state.shards import OwnedShards
from kcontrol.core.model import OutputSlice


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink needs of the engine. `query` gives the running query once it has started;
    `spool` keeps a replay's rows."""

    address: ChannelAddress
    current: Callable[[], AttemptLedger | None]
    planned_steps: Callable[[str, int], list[int]]
    query: Callable[[str], StreamingQuery]
    targets: Callable[[BoundQuery, AttemptLedger], tuple[OutputTarget, ...]]
    sends: Callable[[BoundQuery, AttemptLedger], tuple[SendTarget, ...]] = lambda _query, _attempt: ()
    """What the query sends to other nodes instead of writing it."""
    shared_watermarks: frozenset[str] = frozenset()
    """Queries whose watermark is one for all nodes."""
    shards: Mapping[str, OwnedShards] = field(default_factory=dict)
    """By query that the node runs for some shards only, those that it owns."""
    spool: Spool | None = None
    rehearsal: Path | None = None
    """Where rehearsed steps leave what they would send to nodes."""


class StepWriter:
    """For one query, from its start to its end."""

    def __init__(self, bound: BoundQuery, context: SinkContext) -> None:
        self._bound = bound
        self._context = context

    def write(
        self, spark: SparkContext, attempt: AttemptLedger, run: Callable[[Ways], None]
    ) -> tuple[OutputSlice, ...]:
        """What the query wrote in the attempt. run: runs its rows through writer tasks, as the calling thread's
        Spark job.

        Raises StepFailedError, and whatever `run` does.
        """
        job, ways = self.job(attempt)
        spark.setLocalProperty(JOB_PROPERTY, job.to_json())
        run(ways)
        return attempt.written(self._bound.name)

    def job(self, attempt: AttemptLedger) -> tuple[WriteJob, Ways]:
        """What the writer tasks of the attempt must know, and how its rows find them. Raises StepFailedError."""
        sends = self._context.sends(self._bound, attempt)
        if sends:
            return self._sending(attempt, sends)
        targets = self._context.targets(self._bound, attempt)
        tasks = max(
            layout.tasks for layout in attempt.work.layout.outputs if layout.output in self._bound.outputs
        )
        placement = self._placement(attempt, targets, tasks)
        replay = attempt.expected is not None
        spool = self._context.spool.place(attempt.work.step) if replay and self._context.spool else None
        job = WriteJob(attempt.serial, placement, tasks, replay, targets, str(spool) if spool else None)
        return job, Ways(placement, tasks, self._has_one_partition(attempt))

    def _sending(self, attempt: AttemptLedger, sends: tuple[SendTarget, ...]) -> tuple[WriteJob, Ways]:
        layouts = {layout.exchange: layout.senders for layout in attempt.work.layout.exchanges}
        tasks = max(1, *(layouts.get(target.exchange, 1) for target in sends))
        replay = attempt.expected is not None
        home = self._context.rehearsal
        left = None if home is None or not replay else str(place_of(home, attempt.work.step))
        job = WriteJob(attempt.serial, Placement.SENT, tasks, replay, targets=(), spool=left, sends=sends)
        return job, Ways(Placement.SENT, tasks, self._has_one_partition(attempt))

    def _placement(self, attempt: AttemptLedger, targets: tuple[OutputTarget, ...], tasks: int) -> Placement:
        """One writer needs nothing. Several don't meet if the rows can stay where they were read.

        That is so when the plan never moves rows between tasks, rows bring neither key nor partition, and no
        two source tasks read input partitions that map to one output partition. Others take turns, unless that
        could change the order of records that were in one partition. All of it follows from code and layout:
        a replay chooses alike.
        """
        if tasks == 1:
            return Placement.SINGLE
        if self._never_meet(attempt, targets):
            return Placement.DIRECT
        return Placement.TURNS if self._keeps_order(attempt) else Placement.EXCHANGE

    def _never_meet(self, attempt: AttemptLedger, targets: tuple[OutputTarget, ...]) -> bool:
        counts = {target.partitions for target in targets}
        if not (self._bound.narrow and self._bound.unkeyed and len(counts) == 1):
            return False
        modulus = counts.pop()
        seen: set[int] = set()
        for name in self._bound.inputs:
            for splits in attempt.source_tasks(name):
                residues = {split.partition % modulus for split in splits}
                if seen & residues or any(not residues <= set(target.own) for target in targets):
                    return False
                seen |= residues
        return True

    def _keeps_order(self, attempt: AttemptLedger) -> bool:
        """Whether tasks that write side by side leave records of one input partition in their order: one task
        reads all of it, or all rows are brought together anew on the way. Rows without keys have no order."""
        if self._bound.regrouped or self._bound.unkeyed:
            return True
        seen: set[tuple[str, int]] = set()
        for name in self._bound.inputs:
            for splits in attempt.source_tasks(name):
                read = {(name, split.partition) for split in splits}
                if seen & read:
                    return False
                seen |= read
        return True

    def _has_one_partition(self, attempt: AttemptLedger) -> bool:
        """Whether the batch surely is one task already: one source task, and no row ever leaves it."""
        inputs = self._bound.inputs
        return self._bound.narrow and len(inputs) == 1 and len(attempt.source_tasks(inputs[0])) == 1
