"""The Spark queries of one opening: started together, watched, cancelled, stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.failures import SPARK_ERRORS, failure_of
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.messages import Job
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.adapters.spark.engine.ahead import ahead_wait_s
from kcontrol.adapters.spark.engine.once import OnceQuery, StepPlans
from kcontrol.adapters.spark.engine.once_plans import OncePlans
from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.adapters.spark.engine.small_steps import SmallSteps, interpreted_records
from kcontrol.adapters.spark.engine.state_plans import STATE_PARTITIONS, StatePlans
from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from kcontrol.adapters.spark.query.clock import QueryClock
from kcontrol.adapters.spark.session.conf import CHANGELOGS, with_setting
from kcontrol.adapters.spark.sink.sink import Sink
from kcontrol.adapters.spark.sink.write_step import SinkContext, StepWriter
from kcontrol.adapters.spark.source.data_source import QUERY_PROPERTY
from kcontrol.adapters.spark.state.batch_log import BatchLog
from kcontrol.adapters.spark.state.shards import COMMIT_VALIDATION
from kcontrol.adapters.spark.state.snapshots import MOST_CHANGES, changes_since_snapshot
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

_SHUFFLE = "spark.sql.shuffle.partitions"
_ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"
"""Spark then runs the shuffles of a query without state before its sink is asked."""
CANCEL_THREAD = "kcontrol-cancel"

_log = logging.getLogger(__name__)

Ended = Callable[[int, StepFailedError], None]


class RunningQueries:
    """Starts and stops all queries of a node. `start` and `stop` are called by one thread, `cancel_jobs` by
    any."""

    def __init__(
        self,
        spark: SparkSession,
        bound: BoundQueries,
        context: SinkContext,
        workdir: WorkDir,
        shuffle_partitions: int,
        on_end: Ended,
        gate: StepGate,
    ) -> None:
        self._spark, self._bound, self._context, self._workdir = spark, bound, context, workdir
        self._shuffle_partitions = shuffle_partitions
        self._on_end, self._gate = on_end, gate
        self._running: dict[str, StreamingQuery] = {}
        self._once: dict[str, OnceQuery] = {}
        # Tasks that wait for their step would keep those of another query from running.
        self._ahead_s = ahead_wait_s(spark) if len(bound.queries) == 1 else 0.0
        self._interpreted = interpreted_records(spark)
        self._while_running = ExitStack()
        """What of the session is otherwise from `start` to `stop`."""
        self.clock = QueryClock(spark)
        self.ahead: PlansAhead | None = None
        """Made for the queries of the next start."""

    @property
    def running(self) -> bool:
        return bool(self._running or self._once)

    def query(self, name: str) -> StreamingQuery:
        return self._running[name]

    @property
    def begins_ahead(self) -> bool:
        """Whether there may be a job that waits for the next step."""
        return self._ahead_s > 0 and len(self._once) > 0

    def make_ready(self, attempt: AttemptLedger) -> None:
        """Jobs that wait for the next step may work for this attempt at it, which is not released yet."""
        for once in list(self._once.values()):
            once.make_ready(attempt)

    def job_ahead(self, name: str, number: int) -> Job:
        """For the tasks of a job that a query began ahead: see `JobAhead.job`. From any thread."""
        once = self._once.get(name)
        job = None if once is None else once.job_ahead(number)
        return Job(None if job is None else job.to_json())

    def start(self, session: int, step: int, started: Callable[[int], None] | None = None) -> None:
        """Start every query, those that Spark records on their own directories. They then wait for the step after
        `step`.

        started: called after each query with the number of them so far; the next one is started when it
        returns.
        """
        if self._context.shards:
            self._while_running.enter_context(with_setting(self._spark, COMMIT_VALIDATION, "false"))
        named = self._spark.sparkContext.getLocalProperty(QUERY_PROPERTY)
        # A query takes its settings from the session when it starts, so those of the user are put back
        # afterwards.
        with with_setting(self._spark, _SHUFFLE, str(self._shuffle_partitions)):
            try:
                for number, bound in enumerate(self._bound.queries):
                    plans = self._plans(step, bound)
                    if plans is None:
                        self._start_stream(session, step, bound)
                    else:
                        self._start_once(session, step, number, bound, plans)
                    if started is not None:
                        started(number + 1)
            finally:
                self._spark.sparkContext.setLocalProperty(QUERY_PROPERTY, named)  # type: ignore[arg-type]  # None: not set before

    def planned(self, step: int, attempt: AttemptLedger) -> PlansAhead:
        """Of queries that are not started: how steps that are cut as the attempt is are run after `step`. Raises what `start`
        raises."""
        found = PlansAhead()
        for bound in self._bound.queries:
            plans = self._plans(step, bound)
            if plans is not None:
                plans.prepare(attempt, StepWriter(bound, self._context).job(attempt)[1])
                found.put(bound, plans)
        return found

    def _plans(self, step: int, bound: BoundQuery) -> StepPlans | None:
        """None: Spark plans the query in each step."""
        made = None if self.ahead is None else self.ahead.take(bound)
        if bound.once is not None:
            return made or OncePlans(self._spark, bound, self._context.address)
        return None if bound.raw_of is None else self._state_plans(step, bound, made)

    def _start_stream(self, session: int, step: int, bound: BoundQuery) -> None:
        # Its thread inherits this. The sink would be too late: Spark may run a
        # shuffle of the query before it.
        self._spark.sparkContext.setLocalProperty(QUERY_PROPERTY, bound.name)
        directory = self._workdir.query_path(bound.name)
        with ExitStack() as settings:
            if bound.exchanges:  # There is nothing to read before the sink has waited for it.
                settings.enter_context(with_setting(self._spark, _ADAPTIVE, "false"))
            if self._needs_snapshots(bound.name, directory, step):
                settings.enter_context(with_setting(self._spark, CHANGELOGS, "false"))
            query = (
                bound.frame.writeStream.queryName(f"{self._bound.pipeline}.{bound.name}")
                .outputMode(bound.mode)
                .option("checkpointLocation", f"file:{directory}")
                .foreachBatch(Sink(bound, self._context))
                .start()
            )
        self._running[bound.name] = query
        self.clock.install(query)
        self._watch(session, bound.name, query)

    def _needs_snapshots(self, name: str, directory: Path, step: int) -> bool:
        """Whether the state has gone without a snapshot for so long that Spark could not write changelogs
        soon."""
        changes = changes_since_snapshot(directory, step)
        if changes < MOST_CHANGES:
            return False
        _log.warning(
            "the state of query %r builds on %d changes without a snapshot: until it is opened again each step "
            "writes a snapshot of it",
            name,
            changes,
        )
        return True

    def _state_plans(self, step: int, bound: BoundQuery, made: StepPlans | None) -> StatePlans:
        """made: before, for another directory."""
        directory = self._workdir.query_path(bound.name)
        settings = dict.fromkeys((_SHUFFLE, STATE_PARTITIONS), str(self._shuffle_partitions))
        if self._needs_snapshots(bound.name, directory, step):
            settings[CHANGELOGS] = "false"
        log = BatchLog(directory, bound.sources, self._workdir.retained)
        shards = self._context.shards.get(bound.name)
        if isinstance(made, StatePlans) and made.move_to(log, directory, step, settings, shards):
            return made
        return StatePlans(self._spark, bound, self._context.address, log, directory, step, settings, shards)

    def _start_once(self, session: int, step: int, number: int, bound: BoundQuery, plans: StepPlans) -> None:
        # Connections have the numbers from 0 on.
        peer = Peer(session, -1 - number)
        ended = partial(self._on_end, session)
        small = SmallSteps(self._spark, bound.inputs, bound.exchanges, self._interpreted)
        where = self._spark, bound, plans, self._context, self._gate, peer
        query = OnceQuery(*where, self._ahead_s, small, ended)
        self._once[bound.name] = query
        query.start(step)

    def _watch(self, session: int, name: str, query: StreamingQuery) -> None:
        def wait() -> None:
            try:
                query.awaitTermination()
                error: BaseException = StepFailedError(
                    FailureKind.LOST, f"query {name!r} was stopped from outside"
                )
            except SPARK_ERRORS as failure:
                error = failure
            self._on_end(session, failure_of(error, f"query {name!r}: "))

        threading.Thread(target=wait, name=f"kcontrol-watch-{name}", daemon=True).start()

    def cancel_jobs(self) -> None:
        """Cancel the Spark jobs of all queries' running batches, soon. What a JVM that
        is gone ran has ended with it.

        In a thread: a JVM that is stopped answers nothing, and who calls this is often an event loop.
        """
        queries, once = list(self._running.values()), list(self._once.values())

        def cancel() -> None:
            for each in once:
                each.cancel_jobs()
            for query in queries:
                with suppress(*SPARK_ERRORS):
                    self._spark.sparkContext.cancelJobGroup(str(query.runId))

        threading.Thread(target=cancel, name=CANCEL_THREAD, daemon=True).start()

    def stop(self) -> None:
        """Stop every query and wait until it has ended. Raises StepFailedError (LOST) when one does not."""
        for name, once in list(self._once.items()):
            once.stop()
            del self._once[name]
        for name, query in list(self._running.items()):
            try:
                query.stop()
            except SPARK_ERRORS as error:
                raise StepFailedError(FailureKind.LOST, f"query {name!r} does not stop: {error}") from error
            del self._running[name]
        with suppress(*SPARK_ERRORS):  # A session that is gone has no settings.
            self._while_running.close()
