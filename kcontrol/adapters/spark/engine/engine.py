"""The engine of one node: starts the queries, runs them step by step, rolls them back.

All calls but `cancel` are carried out by one thread of its own, in order, so that the session's event loop
never waits for Spark. The hard parts are elsewhere: who may write in `attempt`, what Spark is told to run in
`gate`, what is on disk in `workdir`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted
from kcontrol.adapters.spark.channel.failures import judged
from kcontrol.adapters.spark.channel.messages import RunToRead
from kcontrol.adapters.spark.channel.schemas import NoSchemas
from kcontrol.adapters.spark.engine.attempts import Attempts
from kcontrol.adapters.spark.engine.delivering import Deliveries
from kcontrol.adapters.spark.engine.exchange_results import early_result, with_exchanges
from kcontrol.adapters.spark.engine.exchange_schemas import schemas_of
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.adapters.spark.engine.parts import NodeParts
from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.adapters.spark.engine.queries import RunningQueries
from kcontrol.adapters.spark.engine.replay_check import Replays
from kcontrol.adapters.spark.engine.results import input_slices, step_result
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.session.conf import retained_batches
from kcontrol.adapters.spark.session.local_files import write_lean_files
from kcontrol.adapters.spark.sink.spool import Spool
from kcontrol.adapters.spark.sink.write_step import SinkContext
from kcontrol.adapters.spark.source.counting import count_runs, count_split
from kcontrol.adapters.spark.state.beginning import Beginnings
from kcontrol.adapters.spark.state.held_steps import HeldSteps
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import (
    Checkpoint,
    ExchangeSlice,
    FailureKind,
    InputRange,
    PipelineSpec,
    SavedFiles,
    SourceSplit,
    StepBoundary,
    StepResult,
    StepWork,
    Watermark,
)
from kcontrol.core.step.assignment import owners_of
from kcontrol.errors import ConfigurationError, StepFailedError

OPEN_TRIES = 3
"""Opening a directory changes nothing in it, so it may be tried again: then one query after
another, for less load at once."""

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class _Phase(Enum):
    CLOSED = auto()
    BUSY = auto()
    """A call is under way and reports by itself whatever happens."""
    IDLE = auto()
    """Between calls with all queries alive: a query that ends now must be reported."""
    BROKEN = auto()
    """A call failed or was cancelled: only `open` helps."""


class SparkEngine:
    """Implements `kcontrol.sessions.ports.Engine` over one Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        bound: BoundQueries,
        host: ChannelEndpoint,
        place: NodePlace,
        spec: PipelineSpec,
        incarnation: int,
        on_failure: Callable[[BaseException], None],
        compression: dict[str, str] | None = None,
        compares: bool = True,
        spool: Spool | None = None,
        rehearsal: Path | None = None,
    ) -> None:
        bound.check_spec(spec)
        schemas = schemas_of(bound)
        self._bound = bound = bound.on_node(spec, place.node)
        self._spark, self._spec, self._host, self._node = spark, spec, host, place.node
        self._on_failure, self._replays = on_failure, Replays(spec, place.node, place.environment, compares)
        home = place.work_root, spec.pipeline, place.node, incarnation
        self._workdir = WorkDir(*home, bound.recorded, retained_batches(spark), spec.assignment)
        self._workdir.prepare()
        self._held = HeldSteps(self._workdir)
        write_lean_files(spark)
        where = (spec.checkpoint.location, spec.pipeline, place.log_id, place.node, incarnation)
        self._work = work = NodeWork(spec, place.node, bound, compression or {})
        self._parts = NodeParts(
            *(CheckpointStore(), self._workdir, *where, place.checkpoints, work.needs, owners_of(spec))
        )
        self._beginnings = Beginnings(spark, spec.layout.shuffle_partitions, work.needs)
        self._deliveries = Deliveries(host.settings, work, schemas, spool)
        host.own_partitions, host.node = work.own_partitions, place.node
        host.columns_used = lambda query, name: work.query(query).columns.get(name)
        host.exchanges, host.rehearsal = work.exchanges, rehearsal
        host.checks_placing = spec.nodes > 1 and any(query.keyed for query in bound.queries)
        self._queries = RunningQueries(
            spark,
            bound,
            self._sink_context(spool),
            self._workdir,
            spec.layout.shuffle_partitions,
            self._query_ended,
            host.gate,
        )
        host.job_ahead = self._queries.job_ahead
        self._lock = threading.Lock()
        self._phase = _Phase.CLOSED
        self._cancels = 0
        self._attempts = Attempts(work)
        self._attempt: AttemptLedger | None = None
        self._after = 0
        """The step that was opened or finished last."""
        self._recording: int | None = None
        """The step whose batches Spark was let record, until somebody has waited for it."""
        self._recorded_s: float | None = None
        """Since when it is, by the monotonic clock, once somebody has."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kcontrol-engine")
        self.opens_after: Callable[[], Awaitable[None]] | None = None
        """Queries of another engine, which uses the same endpoint, may still be stopping; returns when they have."""

    def _sink_context(self, spool: Spool | None) -> SinkContext:
        host, work = self._host, self._work
        return SinkContext(
            address=host.channel.address,
            current=host.gate.current,
            planned_steps=self._workdir.planned_steps,
            query=lambda name: self._queries.query(name),
            targets=work.targets,
            sends=work.sends,
            shared_watermarks=frozenset(each.query for each in self._spec.watermarks),
            shards=work.shards(self._spark),
            spool=spool,
            rehearsal=self._host.rehearsal,
        )

    def begin_with(self, plans: PlansAhead | None) -> None:
        """What was planned for the queries of the first `open`, to be run as far as it is what would be planned then."""
        self._queries.ahead = plans

    # --- the port -------------------------------------------------------------------------------------------

    def openable(self) -> tuple[int, ...]:
        """As the port says. None where Spark records nothing: such queries begin after any step."""
        if not self._bound.recorded:
            return ()
        return self._held.steps(None if self._host.gate.has_ended else self._recording)

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        """The steps of those checkpoints whose part of this node can be read. Without state none is needed."""
        return await self._parts.restorable(checkpoints) if self._spec.stateful else ()

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        """Stop the queries, roll back to `step`, or begin anew (after `step`, if the
        pipeline keeps no state), start them.

        checkpoint: that of `step`; it is used when the directory does not hold the step.
        Raises StepFailedError, CheckpointError or ConfigurationError.
        """
        self.cancel()
        cancels = self._cancels
        if self.opens_after is not None:
            await self.opens_after()
            self.opens_after = None
        await self._call(lambda: self._open(step, create, checkpoint, cancels))

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        """One batch of every query, of the first stage if queries exchange rows; of all in a replay. Raises
        StepFailedError with the kind of what went wrong."""
        cancels = self._cancels
        return await self._call(lambda: self._run_step(work, expected, cancels))

    def make_ready(self, work: StepWork) -> None:
        """As the port says. Where no job waits for the next step, and where a registry is asked for schemas, which are
        known from a step on, nothing is begun."""
        if not self._queries.begins_ahead or not isinstance(self._host.schemas, NoSchemas):
            return
        with self._lock:
            alive = self._phase in (_Phase.BUSY, _Phase.IDLE)
            ready = self._attempts.make_ready(work, self._attempt) if alive else None
            if ready is not None:
                self._host.gate.make_ready(ready)
                self._queries.make_ready(ready)

    async def run_stage(self, step: int, stage: int, received: Sequence[ExchangeSlice]) -> StepResult:
        """The batches of the queries of a later stage, on the rows that were sent to this node. Raises as `run_step`."""
        return await self._call(lambda: self._run_stage(step, stage, received))

    async def finish_step(self, step: int, watermarks: Sequence[Watermark] = ()) -> None:
        """Let Spark record the batches of `step`. What is called next waits for it:
        meanwhile the next step is decided."""
        await self._call(lambda: self._finish_step(step, watermarks))

    async def pin(self, step: int) -> None:
        """Hold fast what opening `step`, which was finished last, needs. Raises CheckpointError."""
        await self._call(lambda: self._pin(step))

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        """Copy what is pinned to the location, beside the steps. Raises CheckpointError."""
        return await self._parts.save(step, claim_epoch, location)

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None:
        """Delete this node's parts that no kept checkpoint names, up to the newest of them. Raises
        CheckpointError."""
        await self._parts.drop(kept)

    def cancel(self) -> None:
        """End what is under way, from any thread.

        A running attempt gets no grant any more, its jobs are cancelled, its batches fail; who waits for the
        queries to open or to finish stops waiting. Between calls nothing happens.
        """
        with self._lock:
            self._cancels += 1
            attempt = self._attempt
            running = attempt is not None and not attempt.finished
            running = self._attempts.drop_ready() or running
            if self._phase is _Phase.BUSY:
                self._host.gate.give_up(StepFailedError(FailureKind.LOST, "the call was cancelled"))
            if attempt is not None and running:
                self._phase = _Phase.BROKEN
                attempt.cancel(f"step {attempt.work.step}: the attempt was cancelled")
        if running:
            self._deliveries.cancel()
            self._queries.cancel_jobs()

    async def close(self) -> None:
        """Stop all queries. The engine can be opened again."""
        self.cancel()
        await self._call(self._close)

    def shut_down(self) -> None:
        """Give back the engine's thread; nothing can be called afterwards."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # --- on the engine's thread -----------------------------------------------------------------------------

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work)
        except asyncio.CancelledError:
            self.cancel()
            raise

    @judged()
    def _guarded(self, work: Callable[[], _Result]) -> _Result:
        with self._lock:
            self._phase = _Phase.BUSY
        try:
            result = work()
        except BaseException:
            with self._lock:
                self._phase = _Phase.BROKEN
            raise
        with self._lock:
            if self._phase is _Phase.BUSY:
                self._phase = _Phase.IDLE if self._queries.running else _Phase.CLOSED
        return result

    def _open(self, step: int, create: bool, checkpoint: Checkpoint | None, cancels: int) -> None:
        if create and step != 0 and self._spec.stateful:
            raise ConfigurationError(f"a pipeline that keeps state begins at step 0, not {step}")
        deadline_s = time.monotonic() + self._spec.limits.open_timeout_ms / 1000
        for number in range(1, OPEN_TRIES + 1):
            try:
                self._open_once(step, create, checkpoint, deadline_s, cancels, one_by_one=number > 1)
                return
            except StepFailedError as error:
                # Spark gives a planner process ten seconds to start, whatever the load of the machine.
                again = number < OPEN_TRIES and error.kind is FailureKind.LOST and cancels == self._cancels
                if not again or time.monotonic() > deadline_s:
                    raise
                _log.warning("opening at step %d failed and is tried again: %s", step, error)

    def _open_once(
        self,
        step: int,
        create: bool,
        checkpoint: Checkpoint | None,
        deadline_s: float,
        cancels: int,
        *,
        one_by_one: bool,
    ) -> None:
        self._settle(deadline_s)
        self._queries.stop()
        self._held.forget()
        self._attempt = None
        session = self._host.channel.begin_session()
        self._host.gate.begin_session(session, len(self._bound.queries))
        if cancels != self._cancels:
            raise StepFailedError(FailureKind.LOST, f"opening at step {step} was cancelled")
        if create or step == 0:
            self._workdir.create(step, self._beginnings.after(step))
        elif self._bound.recorded:
            if checkpoint is not None and step not in self._workdir.openable():
                self._parts.restore(checkpoint, self._beginnings.after(step))
                deadline_s = (
                    time.monotonic() + self._spec.limits.open_timeout_ms / 1000
                )  # of the queries alone
            if step not in self._workdir.openable():
                raise StepFailedError(FailureKind.LOST, f"step {step} is not in the working directory")
            self._workdir.roll_back(step)

        def await_queries(started: int) -> None:
            self._host.gate.wait_queries(step, max(0.0, deadline_s - time.monotonic()), started)

        self._after = step
        self._queries.start(session, step, await_queries if one_by_one else None)
        await_queries(len(self._bound.queries))

    def _run_step(self, work: StepWork, expected: StepBoundary | None, cancels: int) -> StepResult:
        check = None if expected is None else self._replays.check(expected)
        of_input = None if check is None else check.of_input(work)
        with self._lock:
            if cancels != self._cancels:
                raise StepFailedError(FailureKind.LOST, f"step {work.step}: cancelled before it began")
            attempt = self._attempt = self._attempts.next(work, expected, of_input, self._after)
        self._await_recorded()
        attempt.recorded(self._recorded_s)
        self._queries.clock.set(work.now_ms)
        last = self._work.last_stage
        if expected is not None:
            attempt.begin_stage(last, expected.exchanges)
        self._host.gate.release(attempt)
        attempt.begin()
        if expected is not None:
            self._deliveries.begin(attempt, None)
        try:
            result = self._result(attempt, 0 if expected is None else last)
        except StepFailedError as error:
            if check is not None:
                again = partial(self._read_again, attempt)
                check.explain(error, lambda: input_slices(attempt, self._work.inputs(work), again))
            raise
        if check is not None:
            check.result(attempt, result)
        return result

    def _run_stage(self, step: int, stage: int, received: Sequence[ExchangeSlice]) -> StepResult:
        attempt = self._attempt
        if attempt is None or attempt.work.step != step:
            raise StepFailedError(
                FailureKind.LOST,
                f"stage {stage} of step {step} can't be run: the step is not the one that ran",
            )
        attempt.begin_stage(stage, received)
        self._deliveries.begin(attempt, stage)
        return self._result(attempt, stage)

    def _result(self, attempt: AttemptLedger, stage: int) -> StepResult:
        """What the attempt has given once all stages up to this one are over."""
        limits = self._spec.limits
        limit_ms = limits.step_timeout_ms if attempt.expected is None else limits.replay_timeout_ms
        later = stage > 0 and attempt.expected is None
        past_s = time.monotonic() - attempt.started_s if later else 0.0
        results = attempt.wait_results(limit_ms / 1000, stage, past_s)
        phases = (f"{phase} {ms:.0f} ms" for phase, ms in attempt.phases_ms.items())
        _log.debug("step %d, stage %d: %s", attempt.work.step, stage, ", ".join(phases))
        if stage < self._work.last_stage:
            return early_result(attempt, self._work, stage)
        mine = self._work.inputs(attempt.work)
        result = step_result(attempt, results, mine, partial(self._read_again, attempt), self._node)
        return with_exchanges(result, attempt, self._work, partial(self._count_again, attempt))

    def _finish_step(self, step: int, watermarks: Sequence[Watermark]) -> None:
        attempt = self._attempt
        if attempt is None or attempt.work.step != step:
            raise StepFailedError(
                FailureKind.LOST, f"step {step} can't be finished: it is not the one that ran"
            )
        attempt.finish({one.query: one.ms for one in watermarks})
        self._recording = self._after = step

    def _await_recorded(self) -> None:
        """The batches of the step before must be recorded."""
        if self._recording is not None:
            self._recorded_s = self._host.gate.wait_queries(
                self._recording, self._spec.limits.step_timeout_ms / 1000
            )
            self._recording = None

    def _settle(self, deadline_s: float) -> None:
        """What Spark was let record shall be on disk before the queries are stopped; if it
        can't be, the directory tells."""
        recording, self._recording, self._recorded_s = self._recording, None, None
        if recording is not None:
            self._host.gate.wait_recorded(recording, max(0.0, deadline_s - time.monotonic()))

    def _pin(self, step: int) -> None:
        self._await_recorded()
        self._parts.pin(step)

    def _close(self) -> None:
        self._settle(time.monotonic() + self._spec.limits.open_timeout_ms / 1000)
        self._queries.stop()

    def _read_again(self, attempt: AttemptLedger, item: InputRange, split: SourceSplit) -> Counted:
        return count_split(self._host.settings, item, split, attempt.digest_version)

    def _count_again(self, attempt: AttemptLedger, exchange: str, runs: Sequence[RunToRead]) -> int:
        what = self._work.exchanges[exchange], self._deliveries.schemas[exchange]
        return count_runs(self._host.settings, *what, runs, attempt)

    def _query_ended(self, session: int, error: StepFailedError) -> None:
        """Called by a query's watcher. A call under way reports the error itself;
        otherwise the node must hear of it."""
        if not self._host.gate.query_ended(session, error):
            return
        with self._lock:
            # What was made ready for has failed: that is said where it is asked for.
            if self._phase is not _Phase.IDLE or self._attempts.ready_has_failed:
                return
            self._phase = _Phase.BROKEN
        _log.warning("a query ended between steps: %s", error)
        self._on_failure(error)
