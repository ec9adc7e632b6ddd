"""Kills the JVM of a Spark of its own; prints what its callers are told. Run by test_spark_errors.py."""

from __future__ import annotations

import faulthandler
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from kcontrol.adapters.spark import internals
from kcontrol.adapters.spark.channel.failures import as_step_failure
from kcontrol.adapters.spark.session.build import session
from tests.support.patience import HANG_S

DEADLINE_S = HANG_S
MARGIN_S = 20.0
"""Before whoever has started this gives it up, it says where it hangs, and ends."""
PLANNER, WORKER = "python_streamin", "warm_daemon"
"""As the system names them."""


def told(call: Callable[[], Any]) -> str:
    """The kind and the text of what comes of it."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever py4j raises
        return judged(error)
    return "nothing was raised"


def judged(error: BaseException) -> str:
    failure = as_step_failure(error, 1, "q")
    return " ".join(f"{failure.kind.value} {failure}".split())


class Still(DataSource):
    """A source of which nothing comes, so that it has a planner and nothing else."""

    @classmethod
    def name(cls) -> str:
        return "still"

    def schema(self) -> str:
        return "id long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        class Reader(DataSourceStreamReader):
            def initialOffset(self) -> dict[str, int]:
                return {"step": 0}

            def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
                return start

            def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
                return []

            def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
                yield from ()

        return Reader()


def forked(*names: str) -> list[psutil.Process]:
    """Living processes of this one with such a name."""
    return [each for each in psutil.Process().children(recursive=True) if each.name() in names]


def wait_for(started: Path, batch: Future[str]) -> None:
    """Until the worker has written to it. Raises RuntimeError when its batch ends before that."""
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(started.read_text)
        wait([read, batch], DEADLINE_S, FIRST_COMPLETED)
        if not read.done():
            started.write_text("")  # Whoever reads goes on.
            raise RuntimeError(f"no worker began: {batch.result(0) if batch.done() else 'nothing was said'}")


def main() -> None:
    faulthandler.dump_traceback_later(2 * DEADLINE_S - MARGIN_S, exit=True)
    spark = session("kcontrol-killed-jvm", master="local[2]")
    directory = Path(tempfile.mkdtemp())
    started = directory / "started"
    os.mkfifo(started)

    def stay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started.write_text("x")
        time.sleep(2 * DEADLINE_S)
        yield from batches

    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    query = stream.option("checkpointLocation", str(directory / "query")).start()
    try:
        internals.jvm(spark).java.lang.Integer.parseInt("x")
    except Exception as error:  # noqa: BLE001 - of a kind that PySpark knows
        before = error
    spark.dataSource.register(Still)
    still = spark.readStream.format("still").load().writeStream.format("noop")
    still.option("checkpointLocation", str(directory / "still")).start().processAllAvailable()
    frame = spark.range(0, 1, 1, 1).mapInArrow(stay, "id long")
    with ThreadPoolExecutor(2) as pool:
        batch = pool.submit(told, lambda: internals.PlannedFrame(frame).run())
        ended = pool.submit(told, query.awaitTermination)
        wait_for(started, batch)
        family = forked(PLANNER, WORKER)
        names = sorted({each.name() for each in family})
        internals.gateway_of(spark).proc.kill()
        sys.stdout.write(f"batch {batch.result(DEADLINE_S)}\nquery {ended.result(DEADLINE_S)}\n")
    sys.stdout.write(f"asked {told(lambda: spark.range(1).count())}\ntold {judged(before)}\n")
    _, orphans = psutil.wait_procs(family, DEADLINE_S)
    sys.stdout.write(f"forked {' '.join(names)}\norphans {len(orphans)}\n")
    sys.stdout.flush()
    os._exit(0)  # PySpark would wait for its JVM


if __name__ == "__main__":
    main()
