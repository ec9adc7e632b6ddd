"""What a real Spark raises is told apart by its own conditions and classes: a query that fails, a Spark that
has lost something, a Spark that is another than kcontrol needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from kcontrol.adapters.spark import internals
from kcontrol.adapters.spark.channel.crossing import CarriedError, carried
from kcontrol.adapters.spark.channel.failures import as_step_failure
from kcontrol.adapters.spark.channel.spark_errors import CLASSES, CONDITIONS, PYTHON_TEXT, TASK_ENDS
from kcontrol.core.model import FailureKind
from kcontrol.errors import FencedError, SparkSettingError, StepFailedError
from tests.support.patience import HANG_S

QUERY, LOST, FENCED = FailureKind.QUERY, FailureKind.LOST, FailureKind.FENCED
JVM_TIMEOUT_S = 2 * HANG_S


def failure(call: Callable[[], Any]) -> StepFailedError:
    """What comes of an error of Spark's, as the sink has it."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever Spark raises
        return as_step_failure(error, 1, "q")
    raise AssertionError("nothing was raised")


def ran(frame: DataFrame) -> None:
    internals.PlannedFrame(frame).run()


def raised_by(frame: DataFrame, error: BaseException) -> DataFrame:
    def fail(_value: int) -> str:
        raise error

    return frame.select(F.udf(fail, "string")("id"))


def line_of_the_raise() -> int:
    return raised_by.__code__.co_firstlineno + 2


def arrow(frame: DataFrame, act: Callable[[], Any]) -> DataFrame:
    def acting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            act()
            yield batch

    return frame.mapInArrow(acting, "id long")


def test_all_names_of_the_table_are_spark_s(spark: SparkSession) -> None:
    """Another Spark may call things otherwise: then this says so, and not a step that fails."""
    known = internals.jvm_class(spark, "org.apache.spark.SparkThrowableHelper").errorReader().errorInfoMap()
    conditions = {*CONDITIONS, *PYTHON_TEXT}
    assert [name for name in sorted(conditions) if not known.contains(name)] == []
    for name in (*CLASSES, *(f"org.apache.spark.{end}" for end in TASK_ENDS)):
        internals.jvm_class(spark, name)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        BrokenPipeError(32, "Broken pipe"),
        EOFError("Ran out of input"),
        OSError("Stream closed"),
        RuntimeError("Python worker exited unexpectedly (crashed)"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_users_function_raises_is_the_querys_with_its_place(
    spark: SparkSession, error: BaseException
) -> None:
    failed = failure(lambda: ran(raised_by(spark.range(2), error)))
    assert failed.kind is QUERY
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    assert str(failed) == f"step 1, query 'q': {said} ({__file__}, line {line_of_the_raise()})"


def test_what_an_expression_raises_is_the_querys(spark: SparkSession) -> None:
    failed = failure(lambda: ran(spark.range(2).selectExpr("raise_error('Connection reset, TaskKilled')")))
    assert failed.kind is QUERY
    assert "[USER_RAISED_EXCEPTION] Connection reset" in str(failed)


@pytest.mark.parametrize(
    "end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os._exit(1)], ids=["killed", "ended"]
)
def test_a_python_worker_that_is_gone_is_lost(spark: SparkSession, end: Callable[[], None]) -> None:
    failed = failure(lambda: ran(arrow(spark.range(2), end)))
    assert failed.kind is LOST
    assert str(failed).startswith("step 1, query 'q': Python worker exited unexpectedly (crashed)")


def test_a_job_that_somebody_cancels_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)

    def wait() -> None:
        started.write_text("x")
        signal.pause()

    def run() -> StepFailedError:
        spark.sparkContext.setJobGroup("cancelled", "for a test", interruptOnCancel=True)
        return failure(lambda: ran(arrow(spark.range(0, 1, 1, 1), wait)))

    with ThreadPoolExecutor(1) as pool:
        failed = pool.submit(run)
        assert started.read_text() == "x"
        spark.sparkContext.cancelJobGroup("cancelled")
        assert failed.result(HANG_S).kind is LOST


def source(act: Callable[[str], Any]) -> type[DataSource]:
    """A source of one row in each batch. act: called with where it is, in a planner or a task."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"step": 0}

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
            act("planner")
            return {"step": start["step"] + 1}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            act("task")
            yield (1,)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "acting"

        def schema(self) -> str:
            return "id long"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader()

    return Source


def streamed(spark: SparkSession, act: Callable[[str], Any], checkpoint: Path) -> StepFailedError:
    """What ends a query over such a source, as its watcher has it."""
    spark.dataSource.register(source(act))
    stream = spark.readStream.format("acting").load().writeStream.format("noop")
    query = stream.option("checkpointLocation", str(checkpoint)).start()
    try:
        return failure(lambda: query.awaitTermination(round(HANG_S)))
    finally:
        query.stop()


@pytest.mark.parametrize("place", ["planner", "task"])
def test_an_error_of_kcontrols_own_keeps_its_kind_through_spark(
    spark: SparkSession, place: str, tmp_path: Path
) -> None:
    def act(now: str) -> None:
        with carried():
            if now == place:
                raise FencedError("somebody newer owns it\nTaskKilled")

    failed = streamed(spark, act, tmp_path)
    assert (failed.kind, str(failed)) == (FENCED, "step 1, query 'q': somebody newer owns it\nTaskKilled")


@pytest.mark.parametrize("place", ["planner", "task"])
def test_a_process_of_a_source_that_is_killed_is_lost(
    spark: SparkSession, place: str, tmp_path: Path
) -> None:
    def act(now: str) -> None:
        if now == place:
            os.kill(os.getpid(), signal.SIGKILL)

    assert streamed(spark, act, tmp_path).kind is LOST


def test_an_error_in_the_sink_keeps_its_kind_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    def sink(_batch: DataFrame, _number: int) -> None:
        raise CarriedError(FailureKind.REFUSED, "step 4: a record lies elsewhere")

    stream = spark.readStream.format("rate").load().writeStream.foreachBatch(sink)
    query = stream.option("checkpointLocation", str(tmp_path)).start()
    failed = failure(lambda: query.awaitTermination(round(HANG_S)))
    assert (failed.kind, str(failed)) == (
        FailureKind.REFUSED,
        "step 1, query 'q': step 4: a record lies elsewhere",
    )


@pytest.mark.parametrize(
    ("call", "member"),
    [
        (lambda spark: internals.analyzed(spark.range(1)).opensAgain(), r"Method opensAgain\(\[\]\)"),
        (
            lambda spark: internals.analyzed(spark.range(1)).p(1, 2),
            r"Method p\(\[class java.lang.Integer, class java",
        ),
        (
            lambda spark: internals.jvm(spark).org.apache.spark.util.Utils.nope(),
            r"org\.apache\.spark\.util\.Utils\.nope",
        ),
        (
            lambda spark: internals.jvm(spark).java.lang.Integer(1, 2, 3),
            r"Constructor java\.lang\.Integer\(\[",
        ),
        (lambda spark: internals.jvm_class(spark, "org.apache.spark.Nope"), r"org\.apache\.spark\.Nope"),
        (lambda spark: internals.jvm(spark).org.apache.spark.Nope(), "a class that is called"),
    ],
    ids=["a method", "arguments", "a static member", "a constructor", "a class", "a class that is called"],
)
def test_what_this_spark_lacks_is_named_whenever_it_is_met(
    spark: SparkSession, call: Callable[[SparkSession], Any], member: str
) -> None:
    failed = failure(lambda: call(spark))
    assert failed.kind is QUERY
    with pytest.raises(
        StepFailedError, match=rf"^step 1, query 'q': this Spark lacks what kcontrol needs of it: {member}"
    ):
        raise failed


def test_a_class_that_this_spark_lacks_is_an_error_of_settings(spark: SparkSession) -> None:
    with pytest.raises(
        SparkSettingError, match=r"lacks what .* needs of it: org\.apache\.spark\.Nope; use Apache Spark 4"
    ):
        internals.jvm_class(spark, "org.apache.spark.Nope")


def test_an_error_of_java_is_told_with_its_class_and_without_a_loss(spark: SparkSession) -> None:
    failed = failure(lambda: internals.jvm(spark).java.lang.Integer.parseInt("Connection reset"))
    assert failed.kind is QUERY
    assert "Connection reset" in str(failed)


def test_a_jvm_that_is_killed_is_lost_and_what_it_has_forked_ends() -> None:
    """With a JVM of its own, because nothing can be done with a process whose JVM is gone."""
    command = [sys.executable, "-m", "tests.integration.spark.killed_jvm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JVM_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    if sys.platform.startswith("linux"):
        assert said["forked"] == "python_streamin warm_daemon"
    assert said["orphans"] == "0", "planners and workers end by themselves"
    for told in ("batch", "query", "asked", "told"):
        text = said[told]
        assert text.startswith("lost step 1, query 'q': Spark's JVM does not answer: "), said
