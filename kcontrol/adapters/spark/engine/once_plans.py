"""The plans of a query without state: whatever the step, the same RDD is run, of which each task asks what is its part.

In the rare step whose rows are shuffled to their writers it is planned anew, since an RDD with a shuffle would read what the
first run has shuffled.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.engine.ahead import Shape
from kcontrol.adapters.spark.internals import PlannedFrame
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.session.conf import with_setting
from kcontrol.adapters.spark.sink.writer_plan import Ways, WriterPlan

_ADAPTIVE = "spark.sql.adaptive.enabled"

_planning = threading.Lock()
"""Held while the session's settings are those of a plan for a step."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """tasks: how many it has of each input. A step that an earlier definition has cut into more needs another."""

    frame: PlannedFrame
    tasks: int


class OncePlans:
    """Of one query, from its start to its end."""

    def __init__(self, spark: SparkSession, bound: BoundQuery, address: ChannelAddress) -> None:
        assert bound.once is not None
        assert bound.once_of is not None
        self._spark, self._bound, self._frame, self._once_of = spark, bound, bound.once, bound.once_of
        self._plan = WriterPlan(address, bound.name, bound.once.schema)
        self._plans: dict[Ways, _Plan] = {}

    def shape_of(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        """See `StepPlans`."""
        plan = self._plans.get(ways)
        if plan is None or plan.tasks < self._tasks_of(attempt):
            return None
        return Shape(ways, self._with_input(attempt, plan))

    def run(self, shape: Shape, step: int) -> None:  # noqa: ARG002 - every step is run alike
        """See `StepPlans`."""
        self._plans[shape.ways].frame.run(shape.partitions)

    def prepare(self, attempt: AttemptLedger, ways: Ways) -> None:
        """See `StepPlans`."""
        plan = self._plans.get(ways)
        if ways.placement is not Placement.EXCHANGE and (
            plan is None or plan.tasks < self._tasks_of(attempt)
        ):
            self._plans[ways] = self._planned(attempt, ways)

    def run_step(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        """See `StepPlans`."""
        if ways.placement is Placement.EXCHANGE:
            self._planned(attempt, ways).frame.run()
            return None
        plan = self._plans[ways]
        shape = Shape(ways, self._with_input(attempt, plan))
        plan.frame.run(shape.partitions)
        return shape

    def ran(self, step: int) -> None:
        """Nothing is kept of a step."""

    def decided(self, attempt: AttemptLedger) -> None:
        """Nothing is written down of a step."""

    def settings(self) -> Mapping[str, str]:
        """Only those of the session."""
        return {}

    def close(self) -> None:
        """Nothing is held."""

    def _with_input(self, attempt: AttemptLedger, plan: _Plan) -> tuple[int, ...] | None:
        """The partitions of the plan whose source tasks have something to read; None: whichever those are.

        Each input has a row of them, as long as the plan has tasks, unless Spark has found out that nothing
        comes of an input, or all rows go to one writer.
        """
        inputs = self._bound.inputs
        if plan.frame.partitions != plan.tasks * len(inputs):
            return None
        return tuple(
            plan.tasks * place + task
            for place, name in enumerate(inputs)
            for task in range(len(attempt.source_tasks(name)))
        )

    def _tasks_of(self, attempt: AttemptLedger) -> int:
        """The most source tasks that the step has of an input."""
        return max(len(attempt.source_tasks(name)) for name in self._bound.inputs)

    def _planned(self, attempt: AttemptLedger, ways: Ways) -> _Plan:
        """As a streaming query plans it: for as many tasks as the layout says, not as many as seem best.

        Raises ConfigurationError where the pipeline's functions would have to be asked again, because an earlier
        definition has cut the step into more tasks than this one does, and give something else.
        """
        tasks = max(self._tasks_of(attempt), self._bound.most_tasks)
        with _planning, with_setting(self._spark, _ADAPTIVE, "false"):
            frame = self._frame if tasks == self._bound.most_tasks else self._once_of(tasks)
            return _Plan(PlannedFrame(self._plan.writing(frame, ways)), tasks)
