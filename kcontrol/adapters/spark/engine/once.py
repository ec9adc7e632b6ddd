"""A query that is planned once: a thread waits for steps at the gate and runs the same plan for each.

Nothing is planned for a step. Where steps follow each other closely the job of the next one is begun ahead: see
`ahead`. What is kept as a plan, and what of it is changed from step to step, is the part of `StepPlans`.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.failures import SPARK_ERRORS, as_step_failure
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.adapters.spark.channel.write_job import JOB_PROPERTY, WriteJob, ahead_property
from kcontrol.adapters.spark.engine.ahead import JobAhead, Shape
from kcontrol.adapters.spark.engine.releases import Releases
from kcontrol.adapters.spark.engine.small_steps import SmallSteps
from kcontrol.adapters.spark.internals import set_local_properties
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.sink.write_step import SinkContext, StepWriter
from kcontrol.adapters.spark.sink.writer_plan import Ways
from kcontrol.adapters.spark.source.data_source import QUERY_PROPERTY
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

STOP_TIMEOUT_S = 60.0
_GROUPS = itertools.count()
"""Of jobs, in this process: of two queries none must be that of the other, whose jobs would be cancelled with its own."""

_log = logging.getLogger(__name__)


class StepPlans(Protocol):
    """The plans of one query that are kept from step to step. All but `decided` is called by the query's thread, `shape_of`
    also by whoever answers its tasks while that is in a job."""

    def shape_of(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        """How a plan that is there already runs the attempt; None if none does."""

    def run(self, shape: Shape, step: int) -> None:
        """Run a plan that is there, as a job of this thread."""

    def prepare(self, attempt: AttemptLedger, ways: Ways) -> None:
        """See that a plan is there for the attempt, if plans are kept for such attempts: before `run_step`."""

    def run_step(self, attempt: AttemptLedger, ways: Ways) -> Shape | None:
        """Run the attempt, as a job of this thread. How it was run; None if the next one can't be run alike."""

    def ran(self, step: int) -> None:
        """The attempt whose job has just ended well counts. Raises StepFailedError."""

    def decided(self, attempt: AttemptLedger) -> None:
        """Its step is committed. Called by whoever follows the gate, before the query is said to have recorded it."""

    def settings(self) -> Mapping[str, str]:
        """Spark's settings that tasks must find beside those of the session."""

    def close(self) -> None:
        """Give back what it holds of Spark."""


class OnceQuery:
    """Runs the steps of one query from `start` to `stop`. peer: the name under which it waits at the gate.
    ahead_s: how long the job of the next step waits for it; 0: it is not begun ahead. small: how its jobs
    compute. on_end: is given what ended it, unless that was `stop`."""

    def __init__(
        self,
        spark: SparkSession,
        bound: BoundQuery,
        plans: StepPlans,
        context: SinkContext,
        gate: StepGate,
        peer: Peer,
        ahead_s: float,
        small: SmallSteps,
        on_end: Callable[[StepFailedError], None],
    ) -> None:
        self._spark, self._bound, self._plans = spark, bound, plans
        self._ahead_s, self._on_end = ahead_s, on_end
        self._releases = Releases(gate, peer, bound.name, plans.decided)
        self._writer = StepWriter(bound, context)
        self._shape: Shape | None = None
        """Of the last step, where it followed closely on the one before: that of the next one is begun ahead
        with it."""
        self._small = small
        self._ended_s = 0.0
        """When the job of the last step had ended, by the monotonic clock."""
        self._numbers = itertools.count(1)
        self._job_ahead: JobAhead | None = None
        # Not by the session: what is rehearsed beside this has a side channel of its own, and a session of the same number.
        self._group = f"kcontrol-{next(_GROUPS)}-{bound.name}"
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, step: int) -> None:
        """Wait for the step after this one, and go on with those that follow."""
        self._releases.start(step)
        name = f"kcontrol-once-{self._bound.name}"
        self._thread = threading.Thread(target=self._work, args=(step,), name=name, daemon=True)
        self._thread.start()

    def make_ready(self, attempt: AttemptLedger) -> None:
        """The job that was begun ahead may work for it, if there is one."""
        self._releases.make_ready(attempt)

    def job_ahead(self, number: int) -> WriteJob | None:
        """For the tasks of a job that was begun ahead: see `JobAhead.job`."""
        ahead = self._job_ahead
        return ahead.job() if ahead is not None and ahead.number == number else None

    def cancel_jobs(self) -> None:
        """End the Spark job of the step under way, from any thread."""
        with suppress(*SPARK_ERRORS):
            self._spark.sparkContext.cancelJobGroup(self._group)

    def stop(self) -> None:
        """Wait until it has ended; its attempt must be decided. Raises StepFailedError (LOST) when it takes too
        long."""
        self._stopping = True
        ended = self._releases.stop(STOP_TIMEOUT_S)
        self.cancel_jobs()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)
            ended = ended and not self._thread.is_alive()
        with suppress(*SPARK_ERRORS):
            self._plans.close()
        if not ended:
            raise StepFailedError(
                FailureKind.LOST, f"query {self._bound.name!r} does not stop within {STOP_TIMEOUT_S:.0f} s"
            )

    # --- its thread -----------------------------------------------------------------------------------------

    def _work(self, step: int) -> None:
        try:
            self._prepare()
            while True:
                step += 1
                if not self._run_ahead(step):
                    step = self._run_step(step)
        except Exception as error:  # noqa: BLE001 - whatever ends the query, the engine must hear of it
            if not self._stopping:
                self._on_end(as_step_failure(error, step, self._bound.name))

    def _prepare(self) -> None:
        """What Spark's tasks are given of the thread that runs their job: whom they work for, and the
        session's settings, as SQL executions hand them on."""
        context = self._spark.sparkContext
        context.setLocalProperty(QUERY_PROPERTY, self._bound.name)
        settings = {**self._spark.conf.getAll, **self._plans.settings()}
        given = {name: value for name, value in settings.items() if name.startswith("spark.")}
        set_local_properties(self._spark, given)
        # As a streaming query does: a task that waits for Python ends at once when its job is cancelled.
        context.setJobGroup(self._group, f"steps of query {self._bound.name}", interruptOnCancel=True)

    def _run_step(self, step: int) -> int:
        """Which one it was: after a reset the next number is further ahead."""
        attempt = self._releases.released(step)
        assert attempt is not None
        step = attempt.work.step
        self._shape, idle_s = None, attempt.started_s - self._ended_s
        try:
            job, ways = self._writer.job(attempt)
            # Before the rows are there: the first plan of a query takes as long as some steps.
            self._plans.prepare(attempt, ways)
            attempt.planned(self._bound.name)
            attempt.wait_stage(self._bound.name)
            self._spark.sparkContext.setLocalProperty(JOB_PROPERTY, job.to_json())
            self._small.next_is_like(attempt)
            shape = self._plans.run_step(attempt, ways)
            self._plans.ran(step)
        except Exception as error:
            raise self._failed(attempt, error) from error
        if idle_s < self._ahead_s:
            self._shape = shape
        self._deliver(attempt)
        return step

    def _run_ahead(self, step: int) -> bool:
        """Begin the job of a step that is not released yet. False if it has not become that of any attempt."""
        shape = self._shape
        if shape is None:
            return False
        ahead = JobAhead(next(self._numbers), step, shape, self._releases, self._ahead_s, self._fitting)
        self._job_ahead = ahead
        try:
            self._spark.sparkContext.setLocalProperty(JOB_PROPERTY, ahead_property(ahead.number))
            self._plans.run(shape, step)
        except Exception as error:
            attempt = ahead.end()
            if attempt is not None:
                raise self._failed(attempt, error) from error
            # Nothing of a step was in it: the step is run as if it had never been.
            _log.debug("the job begun ahead for step %d has failed: %s", step, error)
            return False
        attempt = ahead.end()
        if attempt is None:
            return False
        try:
            self._plans.ran(step)
        except Exception as error:
            raise self._failed(attempt, error) from error
        self._deliver(attempt)
        self._small.next_is_like(attempt)
        return True

    def _fitting(self, attempt: AttemptLedger) -> tuple[WriteJob, Shape | None]:
        job, ways = self._writer.job(attempt)
        attempt.planned(self._bound.name)
        return job, self._plans.shape_of(attempt, ways)

    def _deliver(self, attempt: AttemptLedger) -> None:
        self._ended_s = time.monotonic()
        outputs = attempt.written(self._bound.name)
        attempt.deliver(self._bound.name, QueryResult(outputs, (), watermark_moved=False))

    def _failed(self, attempt: AttemptLedger, error: Exception) -> StepFailedError:
        failure = as_step_failure(error, attempt.work.step, self._bound.name)
        return attempt.fail(failure.kind, str(failure))
