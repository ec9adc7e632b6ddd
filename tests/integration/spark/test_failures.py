"""What goes wrong in an attempt ends it, is named for what it is, and leaves nothing for readers."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from kcontrol.adapters.spark.channel.client import ChannelClient
from kcontrol.adapters.spark.channel.messages import AskGrant, Placement
from kcontrol.adapters.spark.internals import execution_of
from kcontrol.adapters.spark.sink import sink
from kcontrol.adapters.spark.source.counting import count_split
from kcontrol.core.model import FailureKind, InputRange, StepWork
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.support.patience import HANG_S

INPUT = {"events": (1, {})}
OUTPUT = {"out": (1, {})}
DEADLINE_S = HANG_S


@pytest.fixture(params=["planned once", "planned for each step"])
def run_either(request: pytest.FixtureRequest, run_scenario: RunScenario) -> RunScenario:
    """As `run_scenario`, in both ways to run a query without state."""
    return partial(run_scenario, plan_once=request.param == "planned once")


def values(events: Any) -> Any:
    return {"out": events.select("value")}


def ratios(events: Any) -> Any:
    divide = F.udf(lambda value: str(100 // int(value)), "string")
    return {"out": events.select(divide(F.col("value").cast("string")).alias("value"))}


async def failed_step(stepper: Stepper) -> tuple[StepWork, StepFailedError]:
    """An attempt at the next step that must fail; aborted and rolled back, as the coordinator would have
    it."""
    step = len(stepper.log) + 1
    work = await stepper.begin(step, stepper.division(stepper.ends()))
    with pytest.raises(StepFailedError) as failed:
        await stepper.engine.run_step(work, None)
    await stepper.abort()
    await stepper.engine.open(step - 1, create=step == 1)
    return work, failed.value


def test_a_query_that_raises_on_a_record_is_named_with_step_query_and_error(
    run_either: RunScenario,
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"5"), (None, b"0")])
        _, error = await failed_step(stepper)
        assert error.kind == FailureKind.QUERY
        assert "step 1, query 'out': ZeroDivisionError" in str(error)
        boundary = await stepper.step({("events", 0): 1})
        assert boundary.inputs[0].records == 1
        assert [row.value for row in stepper.committed("out")] == [b"20"]

    run_either([ratios], scenario, INPUT, OUTPUT)


def test_a_query_that_loses_a_connection_of_its_own_has_failed_and_no_node_is_lost(
    run_either: RunScenario,
) -> None:
    def asking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise ConnectionResetError(104, "Connection reset by peer")
        yield from ()

    def asked(events: Any) -> Any:
        return {"out": events.select("value").mapInArrow(asking, "value binary")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        _, error = await failed_step(stepper)
        assert error.kind is FailureKind.QUERY
        where = f"{__file__}, line {asking.__code__.co_firstlineno + 2}"
        said = "ConnectionResetError: [Errno 104] Connection reset by peer"
        assert str(error) == f"step 1, query 'out': {said} ({where})"

    run_either([asked], scenario, INPUT, OUTPUT)


def test_a_member_that_this_spark_lacks_is_named(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        with monkeypatch.context() as other:
            other.setattr(sink, "execution_of", lambda query: execution_of(query).executionOnce())
            _, error = await failed_step(stepper)
        assert error.kind is FailureKind.QUERY
        assert (
            "query 'out': this Spark lacks what kcontrol needs of it: Method executionOnce([]); use"
            in str(error)
        )
        await stepper.step()

    run_scenario([values], scenario, INPUT, OUTPUT, plan_once=False)


def test_a_killed_python_worker_ends_the_attempt_as_lost(run_either: RunScenario, tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    def deadly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if trap.exists():
                trap.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    def dangerous(events: Any) -> Any:
        return {"out": events.select("value").mapInArrow(deadly, "value binary")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1"), (None, b"2")])
        trap.touch()
        _, error = await failed_step(stepper)
        assert error.kind == FailureKind.LOST
        await stepper.step()
        assert [row.value for row in stepper.committed("out")] == [b"1", b"2"]

    run_either([dangerous], scenario, INPUT, OUTPUT)


def test_a_second_writer_of_a_partition_is_refused_and_ends_the_attempt(run_either: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        work = await stepper.begin(1, stepper.division(stepper.ends()))
        await stepper.engine.run_step(work, None)
        attempt = stepper.host.gate.current()
        assert attempt is not None
        again = ChannelClient(stepper.host.channel.address)
        with pytest.raises(StepFailedError, match="ran writer 0 of query 'out' twice"):
            again.ask(AskGrant(attempt.serial, "out", 0, 999, 0, Placement.SINGLE, tasks=1, modulus=1))
        with pytest.raises(StepFailedError, match="twice"):
            await stepper.engine.finish_step(1)

    run_either([values], scenario, INPUT, OUTPUT)


def test_a_task_of_a_cancelled_attempt_gets_no_leave(run_either: RunScenario, tmp_path: Path) -> None:
    started, go = tmp_path / "started", tmp_path / "go"

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            started.touch()
            wait_for_file(go)
            yield batch

    def slow(events: Any) -> Any:
        return {"out": events.select("value").mapInArrow(held, "value binary")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        work = await stepper.begin(1, stepper.division(stepper.ends()))
        running = asyncio.create_task(stepper.engine.run_step(work, None))
        await asyncio.to_thread(wait_for_file, started)
        stepper.engine.cancel()
        with pytest.raises(StepFailedError, match="cancelled") as failed:
            await running
        assert failed.value.kind == FailureKind.LOST
        # The transaction is still open: only the missing leave keeps the task that goes on now from writing.
        go.touch()
        await stepper.engine.close()
        await stepper.commit_nothing(work)
        assert stepper.committed("out") == []

    run_either([slow], scenario, INPUT, OUTPUT)


def test_a_fenced_writer_says_so(run_either: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        work = await stepper.begin(1, stepper.division(stepper.ends()))
        await stepper.abort()
        with pytest.raises(StepFailedError) as failed:
            await stepper.engine.run_step(work, None)
        assert failed.value.kind == FailureKind.FENCED, failed.value
        await stepper.engine.open(0, create=True)
        await stepper.step()
        assert [row.value for row in stepper.committed("out")] == [b"1"]

    run_either([values], scenario, INPUT, OUTPUT)


def test_a_replay_that_differs_from_the_log_says_what_differs(
    run_either: RunScenario, tmp_path: Path
) -> None:
    version = tmp_path / "version"
    version.write_text("1")

    def stamp(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"value": [version.read_bytes()] * batch.num_rows})

    def changing(events: Any) -> Any:
        return {"out": events.select("value").mapInArrow(stamp, "value binary")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        await stepper.step()
        await stepper.engine.open(0, create=True)
        await stepper.replay(1)
        version.write_text("2")
        await stepper.engine.open(0, create=True)
        with pytest.raises(
            StepFailedError, match="step 1: output 'out' partition 0 differs: the log has 1 rec"
        ) as failed:
            await stepper.replay(1)
        assert failed.value.kind == FailureKind.DIGEST
        assert [row.value for row in stepper.committed("out")] == [b"1"]

    run_either([changing], scenario, INPUT, OUTPUT)


def test_a_replay_of_other_input_is_stopped_by_its_input(run_either: RunScenario) -> None:
    """By the digest of the version in the log, before any output is compared, and though the query fails on
    it."""

    async def refused(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        with pytest.raises(
            StepFailedError, match=r"^step 1: input 'events' partition 0 differs: the log has 1 records"
        ) as failed:
            await stepper.replay(1)
        assert failed.value.kind == FailureKind.DIGEST
        assert stepper.engine.openable() == ()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"5"), (None, b"0")])
        made = await stepper.step({("events", 0): 1})
        [item] = made.inputs
        split = made.layout.splits[0]
        ranged = InputRange(item.input, item.topic, item.topic_id, 0, 0, 1)
        untimed = count_split(stepper.settings, ranged, split, 1)
        assert (item.digest_version, item.records, untimed.records) == (2, 1, 1)
        assert untimed.digest != item.digest
        stepper.log[1] = replace(made, inputs=(replace(item, digest=untimed.digest, digest_version=1),))
        await stepper.engine.open(0, create=True)
        [again] = (await stepper.replay(1)).inputs
        assert (again.digest, again.digest_version) == (untimed.digest, 1), (
            "as an older kcontrol has written it"
        )

        stepper.log[1] = replace(made, inputs=(replace(item, digest=untimed.digest),), outputs=())
        await refused(stepper)
        both = tuple(replace(each, to=2) for each in made.layout.splits)
        layout = replace(made.layout, splits=both)
        stepper.log[1] = replace(made, inputs=(replace(item, to=2),), layout=layout)
        await refused(stepper)  # the query divides by zero, too

    run_either([ratios], scenario, INPUT, OUTPUT)


def test_input_that_is_gone_is_named(run_either: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1"), (None, b"2")])
        division = stepper.division(stepper.ends())
        stepper.delete_records("events", 0, 1)
        work = await stepper.begin(1, division)
        with pytest.raises(StepFailedError, match="input 'events'") as failed:
            await stepper.engine.run_step(work, None)
        assert failed.value.kind == FailureKind.INPUT_GONE
        await stepper.abort()

    run_either([values], scenario, INPUT, OUTPUT)


def test_a_query_that_ends_between_steps_is_reported(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        await stepper.step()
        stop_query(stepper, "out")
        await asyncio.wait_for(stepper.failed.wait(), DEADLINE_S)
        assert "query 'out'" in str(stepper.failures[0])
        # It may have been stopped before Spark had recorded the step, which is then run again.
        recorded = stepper.engine.openable() == (1,)
        await stepper.engine.open(1 if recorded else 0, create=not recorded)
        if not recorded:
            await stepper.replay(1)
        stepper.produce("events", [(None, b"2")])
        await stepper.step()
        assert [row.value for row in stepper.committed("out")] == [b"1", b"2"]

    run_scenario([values], scenario, INPUT, OUTPUT, plan_once=False)


def test_what_was_finished_is_recorded_before_the_queries_are_stopped(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for number in (1, 2, 3):
            stepper.produce("events", [(None, b"%d" % number)])
            await stepper.step()
            assert stepper.engine.openable()[0] == number
            if number == 2:
                await stepper.engine.close()
            stepper.engine.cancel()
            await stepper.engine.open(number, create=False)
        assert [row.value for row in stepper.committed("out")] == [b"1", b"2", b"3"]

    run_scenario([values], scenario, INPUT, OUTPUT, plan_once=False)


def test_a_step_that_is_not_there_is_not_opened(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(None, b"1")])
        await stepper.step()
        with pytest.raises(StepFailedError, match="step 2 is not in the working directory"):
            await stepper.engine.open(2, create=False)
        await stepper.engine.open(1, create=False)
        stepper.produce("events", [(None, b"2")])
        await stepper.step()
        assert [row.value for row in stepper.committed("out")] == [b"1", b"2"]

    run_scenario([values], scenario, INPUT, OUTPUT, plan_once=False)


def stop_query(stepper: Stepper, name: str) -> None:
    for query in stepper.spark.streams.active:
        if query.name == f"{stepper.pipeline.name}.{name}":
            query.stop()


def wait_for_file(path: Path) -> None:
    """What a task of another process says."""
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)
