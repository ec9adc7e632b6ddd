"""Answers questions about pipelines' tables with one Spark session: one after the other, each as of one step.

Nothing of a running node is touched: the state comes from checkpoints, of which each node's part is copied into a
scratch directory of this process, and the records of outputs come from Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.internals import USED_OF_STATEMENTS, check
from kcontrol.adapters.spark.session.build import session
from kcontrol.adapters.spark.session.fork_server.process import SWITCH
from kcontrol.adapters.spark.tables.answers import MAX_RESULT, columns_of, rows_of
from kcontrol.adapters.spark.tables.guard import Statement, checked, first_line
from kcontrol.adapters.spark.tables.outputs import LATEST, read_latest, read_output
from kcontrol.adapters.spark.tables.states import StateTable, read_state
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.table_parts import AskedStep, StepFiles, asked_step, written_steps
from kcontrol.core.model import OutputSpec, StepBoundary
from kcontrol.errors import CheckpointError, NotFoundError, SparkSettingError
from kcontrol.requests.table_questions import (
    AnswerTooLateError,
    KnownTable,
    KnownTables,
    QueryServerError,
    StatementRefusedError,
    TableAnswer,
    TableColumn,
    TableLimits,
    TableQuestion,
)
from kcontrol.settings.cluster import ClusterSettings

MASTER = "local[1]"
_LOCAL = re.compile(r"local(\[[^\]]+\])?")
_GROUP = "kcontrol-question"
_CANCEL_EVERY_S = 0.5
_GRACE_S = 10.0
"""For a question that was cancelled to end, before its answer is given up."""
_OF_STATE = "__"
"""Is in the name of each table of state."""
_TELLING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers of statements that it refuses: whoever has asked is told."""

_Result = TypeVar("_Result")


def query_session(directory: Path, limits: TableLimits, master: str | None = None) -> SparkSession:
    """A session for questions, which keeps all its files in `directory`. Raises SparkSettingError, JavaError."""
    chosen = master or MASTER
    if not _LOCAL.fullmatch(chosen):
        raise SparkSettingError(
            f"--master {chosen!r}: the copied state is on this machine alone; give local[N]"
        )
    settings = {
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.runSQLOnFiles": "false",
        MAX_RESULT: str(max(limits.answer_bytes * 2, 1 << 20)),
    }
    os.environ[SWITCH] = "0"  # Nothing that is asked runs in Python.
    for name in _TELLING:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    spark = session("kcontrol query", chosen, settings, hushed=True)
    check(spark, USED_OF_STATEMENTS)
    return spark


class QuestionClock:
    """The time that is left for one question, and whether it was given up."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._given_up = threading.Event()

    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def give_up(self) -> None:
        self._given_up.set()

    def check(self) -> None:
        """Raises AnswerTooLateError."""
        if self._given_up.is_set() or not self.left_s():
            raise self.late()

    def late(self) -> AnswerTooLateError:
        return AnswerTooLateError(
            f"the answer was not there within {self.timeout_s:g} s, and the question was cancelled: ask for less, or give "
            "it more time with --timeout"
        )


class PipelineTables:
    """Answers questions, one at a time."""

    def __init__(
        self, cluster: ClusterSettings, spark: SparkSession, directory: Path, own: Path, limits: TableLimits
    ) -> None:
        """directory: for files, empty. own: where nodes of this machine have their own checkpoints."""
        self._cluster, self._spark, self._own, self._limits = cluster, spark, own, limits
        self._directory = directory / "steps"
        self._directory.mkdir()
        self._kept: OrderedDict[tuple[object, ...], StepFiles] = OrderedDict()
        self._made = 0
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=_GROUP)
        self._stuck = ""

    @property
    def stuck(self) -> str:
        """Why no question can be answered any more, for people; '' while they can: one that was cancelled goes on."""
        return self._stuck

    @property
    def spark(self) -> SparkSession:
        """The session that answers."""
        return self._spark

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, question: TableQuestion) -> TableAnswer:
        """Raises StatementRefusedError, AnswerTooLateError; NotFoundError for a pipeline or step that can't be asked;
        QueryServerError when too many wait; CheckpointError for state that can't be read here; and what reading
        outputs raises."""
        rows = min(question.rows or self._limits.rows, self._limits.rows)
        return await self._in_turn(question.timeout_s, partial(self._answer, question, rows))

    async def tables(self, pipeline: str, step: int | None, timeout_s: float | None = None) -> KnownTables:
        """All tables with their columns. Raises as `answer`."""
        return await self._in_turn(timeout_s, partial(self._tables, pipeline, step))

    async def _in_turn(
        self, timeout_s: float | None, work: Callable[[QuestionClock], Coroutine[Any, Any, _Result]]
    ) -> _Result:
        clock = QuestionClock(min(timeout_s or self._limits.timeout_s, self._limits.timeout_s))
        if self._waiting > self._limits.waiting:
            raise QueryServerError(f"{self._limits.waiting} questions wait already: ask again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(clock.left_s()), self._turn:
                return await work(clock)
        except TimeoutError as error:
            raise clock.late() from error
        finally:
            self._waiting -= 1

    async def _run(self, clock: QuestionClock, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """In the thread whose Spark jobs are cancelled when this is."""
        future = self._pool.submit(self._grouped, clock, partial(function, *arguments))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            clock.give_up()
            await asyncio.to_thread(self._cancel, future)
            raise

    def _grouped(self, clock: QuestionClock, work: Callable[[], _Result]) -> _Result:
        self._spark.sparkContext.setJobGroup(_GROUP, "a question", interruptOnCancel=True)
        clock.check()
        try:
            return work()
        except StatementRefusedError:
            clock.check()  # It failed because it was cancelled.
            raise

    def _cancel(self, future: Future[Any]) -> None:
        """Again and again, because a job may begin after the first time."""
        until = time.monotonic() + _GRACE_S
        while not future.done() and time.monotonic() < until:
            self._spark.sparkContext.cancelJobGroup(_GROUP)
            wait([future], _CANCEL_EVERY_S)
        if not future.done():
            # What Spark computes outside of jobs, such as constants while it plans, can't be cancelled.
            self._stuck = f"a question was cancelled, and Spark has gone on with it for {_GRACE_S:g} s"

    # --- one question ----------------------------------------------------------------------------------------

    async def _answer(self, question: TableQuestion, most_rows: int, clock: QuestionClock) -> TableAnswer:
        statement = await self._run(clock, checked, self._spark, question.sql)
        if statement.lists:
            return _listed(await self._tables(question.pipeline, question.step, clock))
        async with pipeline_logs(self._cluster, question.pipeline) as logs:
            asked, read = await asked_step(logs, question.step)
            outputs = [one for one in asked.spec.outputs if _names_of(one) & statement.tables]
            boundaries = await written_steps(logs, asked, read) if outputs else []
        work = partial(self._read, question.sql, most_rows, asked, statement, outputs, boundaries)
        return await self._run(clock, work, clock)

    async def _tables(self, pipeline: str, step: int | None, clock: QuestionClock) -> KnownTables:
        async with pipeline_logs(self._cluster, pipeline) as logs:
            asked, _ = await asked_step(logs, step)
        return await self._run(clock, self._look, asked, clock)

    def _read(
        self,
        sql: str,
        most_rows: int,
        asked: AskedStep,
        statement: Statement,
        outputs: Sequence[OutputSpec],
        boundaries: Sequence[StepBoundary],
        clock: QuestionClock,
    ) -> TableAnswer:
        files, spark, notes = self._files(asked), self._spark.newSession(), []
        for output in outputs:
            file, saved = files.output(
                self._cluster, output, boundaries, self._limits.read_bytes, clock.check
            )
            read_output(spark, output, file).createOrReplaceTempView(output.name)
            read_latest(spark, output, file).createOrReplaceTempView(output.name + LATEST)
            notes += _notes(asked, output, saved.missing)
        others = statement.tables - {name for one in asked.spec.outputs for name in _names_of(one)}
        if any(name not in statement.own or _OF_STATE in name for name in others):
            states = self._states(files, clock)
            for name in sorted(others - states.keys() - statement.own):
                raise NotFoundError(_no_table(asked, name, [each.name for each in states.values()]))
            for name in others & states.keys():
                self._state_frame(spark, asked, states[name]).createOrReplaceTempView(states[name].name)
        clock.check()
        columns, rows, more = rows_of(spark, sql, most_rows, self._limits.answer_bytes)
        return TableAnswer(asked.spec.pipeline, asked.step, asked.boundary.now_ms, columns, rows, more, notes)

    def _look(self, asked: AskedStep, clock: QuestionClock) -> KnownTables:
        files, spark, found = self._files(asked), self._spark.newSession(), []
        for output in asked.spec.outputs:
            shape = files.output_shape(self._cluster, output)
            every, latest = (
                f"output {output.name}: every record",
                f"output {output.name}: the newest of each key",
            )
            found.append(KnownTable(output.name, every, columns_of(read_output(spark, output, shape))))
            found.append(
                KnownTable(output.name + LATEST, latest, columns_of(read_latest(spark, output, shape)))
            )
        for table in self._states(files, clock).values():
            found.append(
                KnownTable(table.name, table.what, columns_of(self._state_frame(spark, asked, table)))
            )
        return KnownTables(asked.spec.pipeline, asked.step, asked.boundary.now_ms, asked.steps, found)

    def _states(self, files: StepFiles, clock: QuestionClock) -> dict[str, StateTable]:
        """By name in lower case. Outputs come first: a table of state that would be called as one gets a longer name."""
        taken = {name for one in files.asked.spec.outputs for name in _names_of(one)}
        found: dict[str, StateTable] = {}
        for table in files.states(clock.check):
            name = table.name
            while name.lower() in taken or name.lower() in found:
                name += "_"
            found[name.lower()] = replace(table, name=name)
        return found

    @staticmethod
    def _state_frame(spark: SparkSession, asked: AskedStep, table: StateTable) -> DataFrame:
        try:
            return read_state(spark, table, asked.step)
        except PySparkException as error:
            raise CheckpointError(
                f"pipeline {asked.spec.pipeline!r}: Spark can't read {table.what} as of step {asked.step}: "
                f"{first_line(error)}"
            ) from error

    def _files(self, asked: AskedStep) -> StepFiles:
        """Of the step, and no more steps than are to be kept."""
        files = self._kept.pop(asked.key, None)
        if files is None:
            self._made += 1
            directory = self._directory / str(self._made)
            directory.mkdir()
            files = StepFiles(directory, asked, self._own)
        self._kept[asked.key] = files
        while len(self._kept) > self._limits.kept:
            self._kept.popitem(last=False)[1].drop()
        return files


def _names_of(output: OutputSpec) -> set[str]:
    return {output.name.lower(), f"{output.name}{LATEST}".lower()}


def _notes(asked: AskedStep, output: OutputSpec, missing: int) -> list[str]:
    notes = []
    if asked.first > 1:
        notes.append(
            f"output {output.name} begins with step {asked.first}: the log of steps has no older ones"
        )
    if missing:
        notes.append(
            f"{missing:,} records of output {output.name} up to step {asked.step} are no longer in Kafka: retention or "
            "compaction has removed them"
        )
    return notes


def _no_table(asked: AskedStep, name: str, states: Sequence[str]) -> str:
    outputs = [each for one in asked.spec.outputs for each in (one.name, one.name + LATEST)]
    return (
        f"pipeline {asked.spec.pipeline!r} has no table {name!r} as of step {asked.step}; there are "
        f"{', '.join([*outputs, *states])}"
    )


def _listed(known: KnownTables) -> TableAnswer:
    """What SHOW TABLES is answered with."""
    columns = [TableColumn("table", "string"), TableColumn("what", "string")]
    rows = [[each.name, each.what] for each in known.tables]
    return TableAnswer(known.pipeline, known.step, known.step_ms, columns, rows, more=False)
