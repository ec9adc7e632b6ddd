"""Kills the JVM of a Spark of its own; prints what its callers are told. Run by test_spark_errors.py."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from kcontrol.adapters.spark import internals
from kcontrol.adapters.spark.channel.failures import as_step_failure
from kcontrol.adapters.spark.session.build import session

DEADLINE_S = 60.0


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


def main() -> None:
    spark = session("kcontrol-killed-jvm", master="local[2]")
    directory = Path(tempfile.mkdtemp())
    started = directory / "started"
    os.mkfifo(started)

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started.write_text("x")
        time.sleep(DEADLINE_S)
        yield from batches

    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    query = stream.option("checkpointLocation", str(directory / "query")).start()
    try:
        internals.jvm(spark).java.lang.Integer.parseInt("x")
    except Exception as error:  # noqa: BLE001 - of a kind that PySpark knows
        before = error
    frame = spark.range(0, 1, 1, 1).mapInArrow(wait, "id long")
    with ThreadPoolExecutor(2) as pool:
        batch = pool.submit(told, lambda: internals.PlannedFrame(frame).run())
        ended = pool.submit(told, query.awaitTermination)
        started.read_text()
        internals.gateway_of(spark).proc.kill()
        sys.stdout.write(f"batch {batch.result(DEADLINE_S)}\nquery {ended.result(DEADLINE_S)}\n")
    sys.stdout.write(f"asked {told(lambda: spark.range(1).count())}\ntold {judged(before)}\n")
    sys.stdout.flush()
    os._exit(0)  # PySpark would wait for its JVM


if __name__ == "__main__":
    main()
