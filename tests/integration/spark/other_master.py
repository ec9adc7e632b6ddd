"""Scenarios that need a Spark of their own: `python -m
tests.integration.spark.other_master SCENARIO BOOTSTRAP DIR`.

A Python process can hold one Spark context, and these need masters that kcontrol refuses or that lose
executors. Each ends with exit code 0 and the line OK, or with a traceback.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.session.conf import SETTINGS
from kcontrol.core.model import FailureKind
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import Names
from tests.integration.spark.stepper import Stepper
from tests.support.standalone import linked_spark_home
from tests.support.topics import create_topic

DEADLINE_S = 120.0


def spark_with(master: str, scratch: Path, *left_out: str) -> SparkSession:
    """A session with kcontrol's settings but for those left out: `kcontrol.session` would refuse."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(linked_spark_home(scratch))
    builder = SparkSession.Builder().master(master).appName("kcontrol-other-master")
    for setting in SETTINGS:
        if setting.name not in left_out:
            builder = builder.config(setting.name, setting.value)
    more = {"spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    more["spark.kcontrol.channel.tls"] = "true"  # as with executors on other hosts
    for name, value in more.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def stepper_for(spark: SparkSession, bootstrap: str, scratch: Path, query: Any) -> Stepper:
    settings = ClusterSettings(bootstrap_servers=bootstrap)
    name = f"p{secrets.token_hex(4)}"
    pipeline = Pipeline(
        name,
        inputs=[KafkaInput("events", topic=f"{name}-in")],
        outputs=[KafkaOutput("out", topic=f"{name}-out")],
    )
    pipeline.query(query)
    for topic in (f"{name}-in", f"{name}-out", Names(settings.prefix).steps_topic(name)):
        create_topic(settings, topic)
    stepper = Stepper(spark, settings, pipeline, scratch / "work")
    assert stepper.host.channel.address.fingerprint
    return stepper


async def rerun_task(bootstrap: str, scratch: Path) -> None:
    """`local[2,4]` runs a failed task again whatever `spark.task.maxFailures` says. The attempt must end, not
    write."""

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            if context.attemptNumber() == 0:
                raise ValueError("the first try")
            yield batch

    def out(events: Any) -> Any:
        return {"out": events.select("value").mapInArrow(fails_once, "value binary")}

    stepper = stepper_for(spark_with("local[2,4]", scratch), bootstrap, scratch, out)
    await stepper.engine.open(0, create=True)
    stepper.produce("events", [(None, b"1")])
    work = await stepper.begin(1, stepper.division(stepper.ends()))
    error = await _failure(stepper.engine.run_step(work, None))
    assert error.kind == FailureKind.LOST, error
    assert "again, as its attempt 2" in str(error), error
    await stepper.commit_nothing(work)
    assert stepper.committed("out") == []
    await stepper.close()


async def lost_executor(bootstrap: str, scratch: Path) -> None:
    """An executor is killed in the middle of an attempt: it ends as lost, and the step is right when it runs
    again."""
    started = scratch / "started"

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not started.exists():
                started.write_text(str(os.getpid()))
                time.sleep(DEADLINE_S)
            yield batch

    def out(events: Any) -> Any:
        return {"out": events.select("value").mapInArrow(held, "value binary")}

    stepper = stepper_for(spark_with("local-cluster[2,1,512]", scratch), bootstrap, scratch, out)
    await stepper.engine.open(0, create=True)
    stepper.produce("events", [(None, b"1"), (None, b"2")])
    work = await stepper.begin(1, stepper.division(stepper.ends()))
    running = asyncio.create_task(stepper.engine.run_step(work, None))
    await asyncio.to_thread(_kill_executor_behind, started)
    error = await _failure(running)
    assert error.kind == FailureKind.LOST, error
    await stepper.abort()
    await stepper.engine.open(0, create=True)
    await stepper.step()
    assert [row.value for row in stepper.committed("out")] == [b"1", b"2"]
    await stepper.close()


def _kill_executor_behind(started: Path) -> None:
    """SIGKILL the executor whose Python worker wrote its process id."""
    deadline = time.monotonic() + DEADLINE_S
    while not started.exists() or not started.read_text():
        assert time.monotonic() < deadline, "no task began"
        time.sleep(0.05)
    worker = psutil.Process(int(started.read_text()))
    executor = next(
        parent for parent in worker.parents() if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline())
    )
    executor.kill()


async def _failure(running: Any) -> StepFailedError:
    try:
        await running
    except StepFailedError as error:
        return error
    raise AssertionError("the attempt should have failed")


if __name__ == "__main__":
    scenario = {"rerun_task": rerun_task, "lost_executor": lost_executor}[sys.argv[1]]
    asyncio.run(scenario(sys.argv[2], Path(sys.argv[3])))
    sys.stdout.write("OK\n")
