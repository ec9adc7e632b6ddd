"""A node runs only the partitions of its queries' state that it owns.

Where rows meet by key across nodes, a shard of the keys is a partition of Spark's state (`core/step/assignment.py`), and
rows of shards of other nodes never come to this one. So their partitions are not run: of the query's batch those are
taken that are owned, and Spark is told that the others were not run. Each step it is checked that exactly the owned
ones were, and that nobody had rows for others: a query that keeps state by other columns than those of its exchange
would lose rows without a word.

The order within a batch: `of_batch`, a job that runs its frame, `finish`. Used by one thread at a time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.internals import (
    CurrentIds,
    PlanPlaces,
    SomePartitions,
    StateWriter,
    lacking_for_shards,
    moves_after_state,
    nothing_of,
    places_in,
    shuffled,
)
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

COMMIT_VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"
"""Spark's own check that every partition of a batch's state was run. It must be off where some are not, in the session itself
and while the query runs: Spark asks the session before each batch, and not the copy of it that it makes for the query."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnedShards:
    """The shards of a pipeline that a node owns, of so many."""

    owned: frozenset[int]
    of: int

    def __post_init__(self) -> None:
        if not all(0 <= shard < self.of for shard in self.owned):
            raise ValueError(f"shards are numbered from 0 to {self.of - 1}: {sorted(self.owned)}")

    def others(self, partitions: int) -> tuple[int, ...]:
        """Of a state in so many partitions those that the node does not run. With one only, all rows are of shard 0."""
        return tuple(number for number in range(partitions) if number not in self.owned)

    def why_not(self, partitions: int) -> str:
        """What is wrong with rows behind a state that come in so many partitions; '' if nothing is."""
        if partitions in (1, self.of):
            return ""
        return (
            f"its rows come in {partitions} partitions and the pipeline has {self.of} shards: leave out what brings rows "
            "together, deals them out or unites them after the state"
        )


def can_run_some(spark: SparkSession) -> bool:
    """Whether this Spark can run some partitions of a state without the others. Says so in the log if it can't: then every
    node runs all of them, which is right, but slower."""
    lacking = lacking_for_shards(spark)
    if lacking:
        _log.warning(
            "every state partition will be run on every node, which is slower: this Spark (%s) lacks %s",
            spark.version,
            ", ".join(lacking),
        )
    return not lacking


def can_run_some_of(spark: SparkSession, execution: Any, query: str) -> bool:
    """Whether the partitions of a query's batches are those of its state, for a batch that `execution` (a MicroBatchExecution)
    is about to run: all its batches have the same plan. Says so in the log if they are not, as `can_run_some`."""
    moved = moves_after_state(spark, execution.lastExecution().executedPlan())
    if moved:
        say_that_all_run(query)
    return not moved


def say_that_all_run(query: str) -> None:
    """In the log: the partitions of its batches are not those of its state."""
    _log.warning(
        "query %r moves its rows between tasks after the state (a sort, a union, a repartition): every state partition will "
        "be run on every node, which is slower",
        query,
    )


def foreign_rows(names: str, written: int, read: int) -> str:
    """What is wrong where rows before operators with state were written and not read: nobody here runs their partition."""
    return (
        f"rows of operator {names} belong to shards of other nodes: group by exactly the exchange's columns ({written} rows "
        f"were to be read, and {read} were)"
    )


class OwnedPartitions:
    """Of one query with state, from its start to its end."""

    def __init__(self, spark: SparkSession, query: str, shards: OwnedShards) -> None:
        self._spark, self._query, self._shards = spark, query, shards
        self._some = SomePartitions(spark, sorted(shards.owned))
        self._partitions = shards.of
        self._places: PlanPlaces | None = None
        self._stores: dict[int, int] = {}
        """By operator, of each partition, where it is known."""
        self._nothing: dict[int, Any] = {}
        self._finished: int | None = None
        """The last batch of which Spark was told what was not run."""

    def of_batch(self, batch: DataFrame) -> DataFrame:
        """The rows of the owned partitions. Raises StepFailedError (QUERY) if the batch's partitions are not those of the
        state."""
        frame, partitions = self._some.of(batch)
        wrong = self._shards.why_not(partitions)
        if wrong:
            raise self._failed(wrong)
        self._partitions = partitions
        return frame

    def finish(self, execution: Any, batch_id: int) -> None:
        """After the job of the batch that `execution` (a MicroBatchExecution) runs, and before that records it.

        Raises StepFailedError: LOST if an owned partition was not run, QUERY if others were, or had rows.
        """
        plan = execution.lastExecution().executedPlan()
        if self._places is None:
            self._places = places_in(self._spark, plan)
        writers = [StateWriter(self._spark, plan.p(number)) for number in self._places.writers]
        for writer in writers:
            self._check_run(writer)
        for number, readers in self._places.shuffles:
            self._check_rows(plan.p(number), readers, writers)
        others = self._shards.others(self._partitions)
        if others:
            known = self._finished is not None and self._finished == batch_id - 1
            ids = None if known else CurrentIds(self._spark, execution)
            for place, writer in enumerate(writers):
                self._tell(place, writer, others, batch_id, ids)
        self._finished = batch_id

    def _tell(
        self, place: int, writer: StateWriter, others: tuple[int, ...], batch_id: int, ids: CurrentIds | None
    ) -> None:
        if place not in self._stores or writer.run_count:
            self._stores[place] = writer.stores()
        stores = self._stores[place]
        if stores not in self._nothing:
            self._nothing[stores] = nothing_of(self._spark, stores)
        nothing = self._nothing[stores]
        bases = [nothing] * len(others) if ids is None else ids.of(writer.operator, others)
        writer.add_not_run(others, batch_id + 1, nothing, bases)

    def _check_run(self, writer: StateWriter) -> None:
        owned = {shard for shard in self._shards.owned if shard < self._partitions}
        if writer.run_count == len(owned):
            return
        run = writer.run_partitions()
        foreign = sorted(set(run) - owned)
        if foreign:
            raise self._failed(
                f"operator {writer.name} was run for shards {foreign}, which this node does not own: leave out "
                "what moves rows between tasks after it"
            )
        raise self._failed(
            f"operator {writer.name} was run for shards {run}, and this node owns {sorted(owned)}",
            FailureKind.LOST,
        )

    def _check_rows(self, shuffle: Any, readers: int, writers: list[StateWriter]) -> None:
        written, read = shuffled(shuffle, readers)
        if written != read:
            names = " or ".join(writer.name for writer in writers)
            raise self._failed(foreign_rows(names, written, read))

    def _failed(self, what: str, kind: FailureKind = FailureKind.QUERY) -> StepFailedError:
        return StepFailedError(kind, f"query {self._query!r}: {what}")
