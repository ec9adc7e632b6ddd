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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted
from kcontrol.adapters.spark.channel.failures import judged
from kcontrol.adapters.spark.channel.targets import OutputTarget
from kcontrol.adapters.spark.engine.parts import NodeParts
from kcontrol.adapters.spark.engine.queries import RunningQueries
from kcontrol.adapters.spark.engine.replay_check import ReplayCheck
from kcontrol.adapters.spark.engine.results import input_slices, step_result
from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from kcontrol.adapters.spark.session.local_files import leave_out_checksum_files
from kcontrol.adapters.spark.sink.spool import Spool
from kcontrol.adapters.spark.sink.write_step import SinkContext
from kcontrol.adapters.spark.source.reading import count_split
from kcontrol.adapters.spark.state.beginning import plan_settings, write_beginning
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import (
    Checkpoint,
    Environment,
    FailureKind,
    InputRange,
    PipelineSpec,
    SavedFiles,
    SourceSplit,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.core.step.differences import part_of
from kcontrol.core.step.environments import made_otherwise
from kcontrol.core.step.offsets import node_of
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


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Which node of the pipeline this is, and where its directories are."""

    node: int
    work_root: Path
    log_id: str = ""
    """Kafka's id of the steps topic. Only an engine that saves checkpoints needs it."""
    checkpoints: Path | None = None
    """Where the node's own checkpoints are, if they are not put elsewhere."""
    environment: Environment | None = None
    """What it computes with, to be named where a replay differs; None: not known."""


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
    ) -> None:
        bound.check_spec(spec)
        self._bound = bound = bound.on_node(spec, place.node)
        self._spark, self._spec, self._host, self._node = spark, spec, host, place.node
        self._on_failure = on_failure
        self._environment, self._said_otherwise = place.environment, ""
        self._compares, self._compression = compares, compression or {}
        retained = int(spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100)
        self._workdir = WorkDir(
            place.work_root, spec.pipeline, place.node, incarnation, bound.recorded, retained
        )
        self._workdir.prepare()
        leave_out_checksum_files(spark)
        where = (spec.checkpoint.location, spec.pipeline, place.log_id, place.node, incarnation)
        self._parts = NodeParts(CheckpointStore(), self._workdir, *where, own=place.checkpoints)
        host.own_partitions = self._own_partitions
        host.columns_used = lambda query, name: self._bound_query(query).columns.get(name)
        host.checks_placing = spec.nodes > 1 and any(query.keyed for query in bound.queries)
        context = SinkContext(
            address=host.channel.address,
            current=host.gate.current,
            planned_steps=self._workdir.planned_steps,
            query=lambda name: self._queries.query(name),
            targets=self._targets,
            spool=spool,
        )
        self._queries = RunningQueries(
            spark,
            bound,
            context,
            self._workdir,
            spec.layout.shuffle_partitions,
            self._query_ended,
            host.gate,
        )
        host.job_ahead = self._queries.job_ahead
        self._lock = threading.Lock()
        self._phase = _Phase.CLOSED
        self._cancels = self._serial = 0
        self._attempt: AttemptLedger | None = None
        self._recording: int | None = None
        """The step whose batches Spark was let record, until somebody has waited for it."""
        self._recorded_s: float | None = None
        """Since when it is, by the monotonic clock, once somebody has."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kcontrol-engine")

    # --- the port -------------------------------------------------------------------------------------------

    def openable(self) -> tuple[int, ...]:
        """Steps to which the working directory can be rolled back, newest first; also one that Spark still
        records. None where it records nothing: such queries begin after any step."""
        if not self._bound.recorded:
            return ()
        recording = None if self._host.gate.has_ended else self._recording
        listed = self._workdir.openable()
        return listed if recording is None or recording in listed else (recording, *listed)

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
        await self._call(lambda: self._open(step, create, checkpoint, cancels))

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        """One batch of every query. Raises StepFailedError with the kind of what went wrong."""
        cancels = self._cancels
        return await self._call(lambda: self._run_step(work, expected, cancels))

    async def finish_step(self, step: int) -> None:
        """Let Spark record the batches of `step`. What is called next waits for it:
        meanwhile the next step is decided."""
        await self._call(lambda: self._finish_step(step))

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
            if self._phase is _Phase.BUSY:
                self._host.gate.give_up(StepFailedError(FailureKind.LOST, "the call was cancelled"))
            if attempt is not None and running:
                self._phase = _Phase.BROKEN
                attempt.cancel(f"step {attempt.work.step}: the attempt was cancelled")
        if running:
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
        self._attempt = None
        session = self._host.channel.begin_session()
        self._host.gate.begin_session(session, len(self._bound.queries))
        if cancels != self._cancels:
            raise StepFailedError(FailureKind.LOST, f"opening at step {step} was cancelled")
        if create or step == 0:
            self._create(step)
        elif self._bound.recorded:
            if checkpoint is not None and step not in self._workdir.openable():
                self._parts.restore(checkpoint)
                deadline_s = (
                    time.monotonic() + self._spec.limits.open_timeout_ms / 1000
                )  # of the queries alone
            if step not in self._workdir.openable():
                raise StepFailedError(FailureKind.LOST, f"step {step} is not in the working directory")
            self._workdir.roll_back(step)

        def await_queries(started: int) -> None:
            self._host.gate.wait_queries(step, max(0.0, deadline_s - time.monotonic()), started)

        self._queries.start(session, step, await_queries if one_by_one else None)
        await_queries(len(self._bound.queries))

    def _create(self, step: int) -> None:
        if step == 0:
            self._workdir.create()
            return
        settings = plan_settings(self._spark, self._spec.layout.shuffle_partitions)
        sources = {query.name: query.sources for query in self._bound.queries if query.once is None}
        self._workdir.create(step, lambda name, path: write_beginning(path, step, sources[name], settings))

    def _run_step(self, work: StepWork, expected: StepBoundary | None, cancels: int) -> StepResult:
        mine = [item for item in work.division if self._reads(item)]
        own = frozenset((item.input, item.partition) for item in mine)
        check = None if expected is None else self._replay_check(expected)
        of_input = None if check is None else check.of_input(work)
        with self._lock:
            if cancels != self._cancels:
                raise StepFailedError(FailureKind.LOST, f"step {work.step}: cancelled before it began")
            self._serial += 1
            attempt = self._attempt = AttemptLedger(
                self._serial, work, expected, frozenset(self._bound.names), own, of_input
            )
        limits = self._spec.limits
        self._await_recorded()
        attempt.recorded(self._recorded_s)
        self._queries.clock.set(work.now_ms)
        self._host.gate.release(attempt)
        timeout_ms = limits.step_timeout_ms if expected is None else limits.replay_timeout_ms
        read_again = partial(self._read_again, attempt)
        try:
            results = attempt.wait_results(timeout_ms / 1000)
        except StepFailedError as error:
            if check is not None:
                check.explain(error, lambda: input_slices(attempt, mine, read_again))
            raise
        _log.debug(
            "step %d: %s",
            work.step,
            ", ".join(f"{phase} {ms:.0f} ms" for phase, ms in attempt.phases_ms.items()),
        )
        result = step_result(attempt, results, mine, read_again, self._node)
        if check is not None:
            check.result(attempt, result)
        return result

    def _replay_check(self, expected: StepBoundary) -> ReplayCheck:
        otherwise = made_otherwise(expected, self._node, self._environment)
        if otherwise.partition(" was ")[2] not in ("", self._said_otherwise):
            self._said_otherwise = otherwise.partition(" was ")[2]
            _log.warning("%s", otherwise)
        return ReplayCheck(expected, part_of(expected, self._spec, self._node), self._compares, otherwise)

    def _finish_step(self, step: int) -> None:
        attempt = self._attempt
        if attempt is None or attempt.work.step != step:
            raise StepFailedError(
                FailureKind.LOST, f"step {step} can't be finished: it is not the one that ran"
            )
        attempt.finish()
        self._recording = step

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

    # --- who reads and writes what --------------------------------------------------------------------------

    def _reads(self, item: InputRange) -> bool:
        spec = next(candidate for candidate in self._spec.inputs if candidate.name == item.input)
        return node_of(spec, self._spec.nodes, item.partition) == self._node

    def _own_partitions(self, attempt: AttemptLedger, query: str) -> dict[str, tuple[int, ...]]:
        return {target.name: target.own for target in self._targets(self._bound_query(query), attempt)}

    def _bound_query(self, name: str) -> BoundQuery:
        return next(query for query in self._bound.queries if query.name == name)

    def _targets(self, bound: BoundQuery, attempt: AttemptLedger) -> tuple[OutputTarget, ...]:
        layouts = {layout.output: layout for layout in attempt.work.layout.outputs}
        added = [name for name in bound.outputs if name not in layouts]
        if added:
            raise attempt.fail(
                FailureKind.QUERY,
                f"step {attempt.work.step} was made by a definition without output {added[0]!r}: run it "
                "again by that one",
            )
        return tuple(
            OutputTarget(
                name=output.name,
                topic=output.topic,
                partitions=layouts[output.name].partitions,
                own=attempt.work.writers[index],
                digest=layouts[output.name].digest,
                compression=self._compression.get(output.name, "none"),
            )
            for index, output in enumerate(self._spec.outputs)
            if output.name in bound.outputs
        )

    def _query_ended(self, session: int, error: StepFailedError) -> None:
        """Called by a query's watcher. A call under way reports the error itself;
        otherwise the node must hear of it."""
        if not self._host.gate.query_ended(session, error):
            return
        with self._lock:
            if self._phase is not _Phase.IDLE:
                return
            self._phase = _Phase.BROKEN
        _log.warning("a query ended between steps: %s", error)
        self._on_failure(error)
