"""The plans of a query with state, or of a pipeline that exchanges rows: kept for each way to run a step, and told before each
run which version of the state it is on.

A step that runs again, after an abort or in a replay, begins on a directory that was rolled back, in a query that was
started anew: so nothing is kept here that a failed attempt could leave behind. What an attempt made of the state counts when
its job has ended well (`ran`), and is written down when the step is committed (`decided`).
"""

from __future__ import annotations

import gc
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.engine.ahead import Shape
from kcontrol.adapters.spark.engine.sent_plan import SentPlan
from kcontrol.adapters.spark.engine.state_ids import checked_ids
from kcontrol.adapters.spark.internals import KeptPlan, KeptQuery, StateSession, StoreIds
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.sink.sent_as_read import SendingSource
from kcontrol.adapters.spark.sink.writer_plan import Ways, WriterPlan
from kcontrol.adapters.spark.source.registering import register
from kcontrol.adapters.spark.state.batch_log import BatchLog
from kcontrol.adapters.spark.state.lineage import STATE
from kcontrol.adapters.spark.state.shards import (
    COMMIT_VALIDATION,
    OwnedShards,
    foreign_rows,
    say_that_all_run,
)
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
"""Spark's streaming sets it for itself, and writes it down under the name of the other."""
_SHUFFLE = "spark.sql.shuffle.partitions"
_OWN_SETTINGS = {
    # Partitions are run as the layout says, whatever they hold.
    "spark.sql.adaptive.enabled": "false",
    # It is for batches that Spark's streaming follows.
    COMMIT_VALIDATION: "false",
}

MOST_PLANS = 32
"""Of one query, that are kept: there may be as many shapes as the product of the task counts of all its inputs."""
DROPPED = 8
"""Those that were run longest ago make place, so many at once. What the JVM holds for them, RDDs, shuffles, broadcasts and
accumulators, Spark's ContextCleaner takes away once Java has collected it, and Java can once no handle in Python is left.
Py4j's handles refer to themselves, by the methods of theirs that were called, so it takes a garbage collection to let go."""


class StatePlans:
    """Of one query, from its start, after `step`, to its end. settings: more of Spark's for it. shards: those of its state that
    are run; None: all."""

    def __init__(
        self,
        spark: SparkSession,
        bound: BoundQuery,
        address: ChannelAddress,
        log: BatchLog,
        directory: Path,
        step: int,
        settings: Mapping[str, str],
        shards: OwnedShards | None = None,
    ) -> None:
        """Raises FileNotFoundError, and ConfigurationError, if the directory can't be read."""
        assert bound.raw_of is not None
        self._bound, self._raw_of = bound, bound.raw_of
        recorded = self._begin(log, step)
        self._settings = {**settings, **recorded, **_OWN_SETTINGS}
        self._session = StateSession(spark, self._settings)
        self._shards, self._streams = shards, (*bound.inputs, *bound.exchanges)
        owned = None if shards is None else shards.owned
        self._query = KeptQuery(bound.frame, _state_in(directory), bound.mode, owned, bound.stateful)
        self._writer = WriterPlan(
            address, bound.name, bound.ends_as, bound.make_sent, told=not bound.stateful
        )
        if bound.sending is not None:
            register(spark, SendingSource)
        self._plans: OrderedDict[Shape, KeptPlan | SentPlan] = OrderedDict()
        """At most MOST_PLANS; the one that was run last is the last one."""
        self._sources: dict[tuple[str, int], DataFrame] = {}
        self._job: tuple[int, dict[int, StoreIds]] | None = None
        """The step whose job was run last, and what it made of the state."""
        self._unrecorded: dict[int, dict[int, StoreIds]] = {}
        self._told = self._session.told()

    def _begin(self, log: BatchLog, step: int) -> dict[str, str]:
        """The settings that are written down there for the state."""
        log.open(step)
        self._log, self._step = log, step
        self._version = log.version
        """Of the state: how many batches have made it."""
        self._ids: dict[int, StoreIds] = log.ids()
        recorded = log.settings()
        if _SHUFFLE in recorded:
            recorded[STATE_PARTITIONS] = recorded[_SHUFFLE]
        return recorded

    def move_to(
        self,
        log: BatchLog,
        directory: Path,
        step: int,
        settings: Mapping[str, str],
        shards: OwnedShards | None,
    ) -> bool:
        """Before anything was run: begin in another directory, after `step`, with the plans that are there. False: they are not
        those that would be made there, so they must not be run.

        Raises as the constructor.
        """
        recorded = self._begin(log, step)
        if shards != self._shards or {**settings, **recorded, **_OWN_SETTINGS} != self._settings:
            return False
        self._query = replace(self._query, state=_state_in(directory))
        for plan in self._plans.values():
            plan.move_to(self._query.state)
        return True

    def shape_of(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        """See `StepPlans`. A shape's partitions are the source tasks of each input."""
        shape = Shape(ways, self._tasks_of(attempt))
        return shape if shape in self._plans else None

    def run(self, shape: Shape, step: int) -> None:
        """See `StepPlans`. The number of the first step after a reset is further ahead."""
        if step <= self._step:
            raise StepFailedError(
                FailureKind.LOST, f"{self._name}: step {step} can't follow step {self._step}"
            )
        plan = self._plans[shape]
        self._plans.move_to_end(shape)
        plan.begin(self._version, self._ids)
        plan.run()
        self._check_rows(plan)
        others = self._not_run(plan)
        made = self._version + 1
        self._job = (
            step,
            {
                operator: checked_ids(
                    *(self._name, operator, made, self._ids.get(operator), told, others),
                    plan.stores(operator),
                )
                for operator, told in plan.ids().items()
            },
        )

    def _check_rows(self, plan: KeptPlan | SentPlan) -> None:
        lost = plan.lost_rows()
        if lost is not None:
            names = " or ".join(self._bound.stateful_operators)
            raise StepFailedError(FailureKind.QUERY, f"{self._name}: {foreign_rows(names, *lost)}")

    def _not_run(self, plan: KeptPlan | SentPlan) -> tuple[int, ...]:
        if self._shards is None or not plan.runs_some:
            return ()
        return self._shards.others(plan.partitions)

    def prepare(self, attempt: AttemptLedger, ways: Ways) -> None:
        """See `StepPlans`."""
        shape = Shape(ways, self._tasks_of(attempt))
        if shape not in self._plans:
            self._plans[shape] = self._planned(shape)
            if len(self._plans) > MOST_PLANS:
                self._drop()

    def run_step(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        """See `StepPlans`."""
        shape = Shape(ways, self._tasks_of(attempt))
        self.run(shape, attempt.work.step)
        return shape

    def _drop(self) -> None:
        for _ in range(DROPPED):
            self._plans.popitem(last=False)
        gc.collect()

    def ran(self, step: int) -> None:
        """See `StepPlans`."""
        if self._job is None or self._job[0] != step:
            raise StepFailedError(FailureKind.LOST, f"{self._name}: no job was run for step {step}")
        self._step, self._ids = self._job
        self._version += 1
        self._unrecorded[step] = self._ids

    def decided(self, attempt: AttemptLedger) -> None:
        """See `StepPlans`. Raises OSError."""
        work = attempt.work
        settings = json.dumps({**self._told, "batchTimestampMs": work.now_ms}, separators=(",", ":"))
        self._log.write(work.step, settings, self._unrecorded.pop(work.step))

    def settings(self) -> Mapping[str, str]:
        """See `StepPlans`."""
        return self._settings

    def close(self) -> None:
        """See `StepPlans`."""
        self._session.close()

    @property
    def _name(self) -> str:
        return f"query {self._bound.name!r}"

    def _tasks_of(self, attempt: AttemptLedger) -> tuple[int, ...]:
        """By input or exchange. One without records has a task that finds nothing: a state is also run without rows."""
        return (
            *(max(1, len(attempt.source_tasks(name))) for name in self._bound.inputs),
            *map(attempt.exchanging.tasks, self._bound.exchanges),
        )

    def _planned(self, shape: Shape) -> KeptPlan | SentPlan:
        assert shape.partitions is not None
        if self._bound.sending is not None and sum(shape.partitions) <= shape.ways.tasks:
            [reading] = shape.partitions
            return SentPlan(self._bound.sending(reading), reading)
        tasks = dict(zip(self._streams, shape.partitions, strict=True))
        writing: Callable[[DataFrame], DataFrame] = lambda rows: self._writer.writing(rows, shape.ways)  # noqa: E731
        first = not self._plans
        plan = (self._session, self._query, lambda name: self._source(name, tasks[name]), tasks, writing)
        made = KeptPlan(*plan, self._version, self._ids, first=first)
        if self._shards is not None:
            self._check_partitions(made, self._shards, first)
        return made

    def _check_partitions(self, plan: KeptPlan, shards: OwnedShards, first: bool) -> None:
        wrong = shards.why_not(plan.partitions) if plan.runs_some else ""
        if wrong:
            raise StepFailedError(FailureKind.QUERY, f"{self._name}: {wrong}")
        if first and not plan.runs_some:
            say_that_all_run(self._bound.name)

    def _source(self, name: str, tasks: int) -> DataFrame:
        """With at least so many tasks, of which the first ones are run."""
        most = max(tasks, self._bound.most_tasks)
        if (name, most) not in self._sources:
            self._sources[name, most] = self._raw_of(name, most)
        return self._sources[name, most]


def _state_in(directory: Path) -> str:
    """The URL of the state stores of a query's directory."""
    return f"file:{directory / STATE}"
