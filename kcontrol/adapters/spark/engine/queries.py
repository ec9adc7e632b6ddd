"""The Spark queries of one opening: started together, watched, cancelled, stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.adapters.spark.channel.failures import SPARK_ERRORS, failure_of
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.adapters.spark.engine.once import OnceQuery
from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from kcontrol.adapters.spark.query.clock import QueryClock
from kcontrol.adapters.spark.session.conf import with_setting
from kcontrol.adapters.spark.sink.sink import Sink
from kcontrol.adapters.spark.sink.write_step import SinkContext
from kcontrol.adapters.spark.source.data_source import QUERY_PROPERTY
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

_SHUFFLE = "spark.sql.shuffle.partitions"
CANCEL_THREAD = "kcontrol-cancel"

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
        self.clock = QueryClock(spark)

    @property
    def running(self) -> bool:
        return bool(self._running or self._once)

    def query(self, name: str) -> StreamingQuery:
        return self._running[name]

    def start(self, session: int, step: int, started: Callable[[int], None] | None = None) -> None:
        """Start every query, those that Spark records on their own directories. They then wait for the step after
        `step`.

        started: called after each query with the number of them so far; the next one is started when it
        returns.
        """
        named = self._spark.sparkContext.getLocalProperty(QUERY_PROPERTY)
        # A query takes its settings from the session when it starts, so those of the user are put back
        # afterwards.
        with with_setting(self._spark, _SHUFFLE, str(self._shuffle_partitions)):
            try:
                for number, bound in enumerate(self._bound.queries):
                    if bound.once is None:
                        self._start_stream(session, bound)
                    else:
                        self._start_once(session, step, number, bound)
                    if started is not None:
                        started(number + 1)
            finally:
                self._spark.sparkContext.setLocalProperty(QUERY_PROPERTY, named)  # type: ignore[arg-type]  # None: not set before

    def _start_stream(self, session: int, bound: BoundQuery) -> None:
        # Its thread inherits this. The sink would be too late: Spark may run a
        # shuffle of the query before it.
        self._spark.sparkContext.setLocalProperty(QUERY_PROPERTY, bound.name)
        query = (
            bound.frame.writeStream.queryName(f"{self._bound.pipeline}.{bound.name}")
            .outputMode(bound.mode)
            .option("checkpointLocation", f"file:{self._workdir.query_path(bound.name)}")
            .foreachBatch(Sink(bound, self._context))
            .start()
        )
        self._running[bound.name] = query
        self.clock.install(query)
        self._watch(session, bound.name, query)

    def _start_once(self, session: int, step: int, number: int, bound: BoundQuery) -> None:
        # Connections have the numbers from 0 on.
        peer = Peer(session, -1 - number)
        ended = partial(self._on_end, session)
        query = OnceQuery(self._spark, bound, self._context, self._gate, peer, ended)
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
