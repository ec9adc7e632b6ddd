"""A planned frame that is run again and again: each run is a whole job, whatever of Spark's way to submit one is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import PlannedFrame
from kcontrol.adapters.spark.internals.repeated import MOST_TRIES
from kcontrol.errors import SparkLostError

PARTITIONS = 3


class Marking:
    """Leaves a line in the partition's file, with a local property of its job; fails where a file says so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        context = TaskContext.get()
        assert context is not None
        if (self._folder / "fail").exists():
            raise ValueError("told to fail")
        with (self._folder / str(context.partitionId())).open("a") as file:
            file.write(f"{context.getLocalProperty('test.mark')} {rows}\n")
        yield from ()


def planned(spark: SparkSession, folder: Path) -> PlannedFrame:
    frame = spark.range(0, 30, 1, PARTITIONS)
    return PlannedFrame(frame.mapInArrow(Marking(folder), frame.schema))


def lines(folder: Path, partition: int) -> list[str]:
    file = folder / str(partition)
    return file.read_text().splitlines() if file.exists() else []


def run(spark: SparkSession, frame: PlannedFrame, mark: str, partitions: tuple[int, ...] | None) -> None:
    spark.sparkContext.setLocalProperty("test.mark", mark)
    try:
        frame.run(partitions)
    finally:
        spark.sparkContext._jsc.setLocalProperty("test.mark", None)


@pytest.mark.parametrize("partitions", [(0, 2), (1,), None], ids=str)
def test_each_run_computes_its_partitions_once_with_the_properties_of_its_thread(
    spark: SparkSession, tmp_path: Path, partitions: tuple[int, ...] | None
) -> None:
    frame = planned(spark, tmp_path)
    marks = [str(number) for number in range(8)]
    for mark in marks:
        run(spark, frame, mark, partitions)
    for partition in range(PARTITIONS):
        ran = partitions is None or partition in partitions
        assert lines(tmp_path, partition) == ([f"{mark} 10" for mark in marks] if ran else [])


def test_runs_of_other_partitions_may_alternate(spark: SparkSession, tmp_path: Path) -> None:
    frame = planned(spark, tmp_path)
    for mark, partitions in enumerate([(0,), (0, 1, 2), (2,), (0, 1, 2), (1, 2), (0,)]):
        run(spark, frame, str(mark), partitions)
    assert [[line.split()[0] for line in lines(tmp_path, number)] for number in range(PARTITIONS)] == [
        ["0", "1", "3", "5"],
        ["1", "3", "4"],
        ["1", "2", "3", "4"],
    ]


def test_a_run_that_fails_says_so_and_the_next_one_is_not_touched_by_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = planned(spark, tmp_path)
    for mark in ("0", "1", "2"):
        run(spark, frame, mark, (0, 1))
    (tmp_path / "fail").touch()
    with pytest.raises(PythonException, match="told to fail"):
        run(spark, frame, "3", (0, 1))
    (tmp_path / "fail").unlink()
    run(spark, frame, "4", (0, 1))
    assert [line.split()[0] for line in lines(tmp_path, 1)] == ["0", "1", "2", "4"]


def learned(spark: SparkSession, frame: PlannedFrame) -> int:
    """Run partition 0 until the way it is submitted is known; how often that took."""
    for number in range(1, MOST_TRIES + 1):
        run(spark, frame, "before", (0,))
        if frame._job.knows(1):
            return number
    pytest.fail(f"{MOST_TRIES} runs were not seen by who looks for them")


def test_a_job_that_is_run_again_is_submitted_without_being_cleaned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the short way is taken, and not only the long one again."""
    frame = planned(spark, tmp_path)
    runs = learned(spark, frame)

    def long_way(*_: object) -> None:
        raise AssertionError("submitted as if it had not run before")

    monkeypatch.setattr(frame._job, "_run_first", long_way)
    run(spark, frame, "after", (0,))
    assert [line.split()[0] for line in lines(tmp_path, 0)] == ["before"] * runs + ["after"]


def test_a_context_that_was_stopped_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = planned(spark, tmp_path)
    learned(spark, frame)

    class Stopped:
        def isStopped(self) -> bool:
            return True

    monkeypatch.setattr(frame._job, "_context", Stopped())
    with pytest.raises(SparkLostError, match="Spark was stopped"):
        frame._job.run((0,))
