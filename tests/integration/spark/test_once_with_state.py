"""A query with state whose plan is kept gives what it gives when Spark plans each batch: on the same directory, in the same
bytes, after aborts and rollbacks, and whatever jobs were begun in vain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import kcontrol
from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.engine.ahead import WAIT_SETTING
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.state.formats import planned_ends, unique_ids
from kcontrol.definition.frames import OutputMode
from kcontrol.definition.parts import TaskLayout
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_planned_once import Query, pipeline_of
from tests.integration.spark.test_shards import heavy_but
from tests.support.processes import until

KEYED = {"key": "name", "value_format": "json"}
WIDE = TaskLayout(max_tasks=2, records_per_task=3, shuffle_partitions=3)


def counts(numbers: Any) -> Any:
    grouped = numbers.groupBy(F.col("key").cast("string").alias("name")).agg(
        F.count("*").alias("n"), F.sum(F.col("value").cast("string").cast("long")).alias("total")
    )
    return {"out": kcontrol.output(grouped, mode="update")}


def everything(numbers: Any) -> Any:
    grouped = numbers.groupBy(F.col("key").cast("string").alias("name")).agg(F.count("*").alias("n"))
    return {"out": kcontrol.output(grouped, mode="complete")}


def news(numbers: Any) -> Any:
    names = numbers.select(F.col("key").cast("string").alias("name")).dropDuplicates(["name"])
    return {"out": kcontrol.output(names.withColumn("n", F.lit(1)), mode="append")}


def total(numbers: Any) -> Any:
    summed = numbers.select(F.col("value").cast("string").cast("long").alias("n")).agg(F.sum("n").alias("n"))
    return {"out": kcontrol.output(summed.withColumn("name", F.lit("all")), mode="update")}


def of_both(numbers: Any, others: Any) -> Any:
    names = numbers.select("key").unionAll(others.select("key"))
    grouped = names.groupBy(F.col("key").cast("string").alias("name")).agg(F.count("*").alias("n"))
    return {"out": kcontrol.output(grouped, mode="update")}


def counted_twice(numbers: Any) -> Any:
    """Two operators with state, one on the other."""
    names = numbers.select("key", "value").dropDuplicates(["key", "value"])
    grouped = names.groupBy(F.col("key").cast("string").alias("name")).agg(F.count("*").alias("n"))
    return {"out": kcontrol.output(grouped, mode="update")}


def records_of(step: int) -> list[tuple[bytes, bytes]]:
    return [(f"k{(number * step) % 7}".encode(), str(number).encode()) for number in range(3 + step)]


async def make_steps(stepper: Stepper, count: int, inputs: tuple[str, ...] = ("numbers",)) -> None:
    for _ in range(count):
        step = len(stepper.log) + 1
        for place, name in enumerate(inputs):
            if (step + place) % 3:  # now and then an input has nothing
                stepper.produce(name, records_of(step + place), partition=step % 2)
        if not (step % 3):
            stepper.produce(inputs[0], records_of(step), partition=0)
        await stepper.step()


def rows_of(stepper: Stepper) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found = [(row.step, row.partition, row.key, row.value) for row in stepper.committed("out")]
    return sorted(found, key=lambda row: (row[0], row[1], row[2] or b"", row[3] or b""))


ALL: dict[str, tuple[Any, dict[str, Any]]] = {
    "a grouped count": (counts, {}),
    "all of it each time": (everything, {}),
    "unique": (news, {}),
    "one row": (total, {}),
    "two inputs": (of_both, {"others": (2, {})}),
    "two states": (counted_twice, {}),
}


@pytest.mark.parametrize("scenario", heavy_but("a grouped count", "two inputs", of=ALL))
def test_both_ways_to_run_it_write_the_same_on_the_same_directory_in_turns(
    run_scenario: RunScenario, scenario: tuple[Query, dict[str, Any]]
) -> None:
    """Digests are compared by the engine wherever a step is replayed."""
    query, more = scenario
    inputs = ("numbers", *more)
    found: list[Any] = []

    async def in_turns(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        assert stepper.bound.planning == "once"
        await make_steps(stepper, 3, inputs)
        await stepper.plan(once=False)
        await stepper.engine.open(3, create=False)
        await make_steps(stepper, 2, inputs)
        await stepper.engine.open(2, create=False)
        for step in (3, 4, 5):
            await stepper.replay(step)
        await stepper.plan(once=True)
        await stepper.engine.open(4, create=False)
        await stepper.replay(5)
        await make_steps(stepper, 2, inputs)
        found.append(rows_of(stepper))

    async def by_spark(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        assert stepper.bound.planning == "each step: plan_once=False"
        await make_steps(stepper, 7, inputs)
        found.append(rows_of(stepper))

    where = ({"numbers": (2, {}), **more}, {"out": (3, KEYED)}, WIDE)
    run_scenario([query], in_turns, *where)
    run_scenario([query], by_spark, *where, plan_once=False)
    mine, sparks = found
    assert {row[0] for row in mine} <= set(range(1, 8))
    assert mine
    assert mine == sparks


def test_what_is_written_down_of_a_step_is_what_spark_writes_down(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await make_steps(stepper, 2)
        await stepper.plan(once=False)  # What was let record is then on disk.
        kept = _written(stepper)
        await stepper.engine.open(2, create=False)
        await make_steps(stepper, 1)
        await stepper.new_incarnation()
        spark = _written(stepper)
        assert stepper.engine.openable()[0] == 3
        assert kept.keys() == spark.keys()
        assert kept["settings"] == spark["settings"]
        assert (kept["ends"], spark["ends"]) == ([2], [3])
        assert kept["operators"] == spark["operators"]
        assert kept["record"] == spark["record"]

    run_scenario([counts], scenario, {"numbers": (2, {})}, {"out": (3, KEYED)})


def _written(stepper: Stepper) -> dict[str, Any]:
    [query] = [path.parent for path in stepper.work_root.rglob("offsets")]
    newest = str(max(int(path.name) for path in (query / "commits").iterdir() if path.name.isdecimal()))
    plan, record = query / "offsets" / newest, query / "commits" / newest
    told = json.loads(plan.read_text().splitlines()[1])
    return {
        "settings": told["conf"],
        "ends": planned_ends(plan),
        "operators": {place: len(ids) for place, ids in unique_ids(record).items()},
        "record": sorted(json.loads(record.read_text().splitlines()[1])),
    }


def test_an_aborted_step_leaves_nothing_and_an_older_one_is_opened(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await make_steps(stepper, 3)
        stepper.produce("numbers", [(b"k1", b"1000")])
        work = await stepper.begin(4, stepper.division(stepper.ends()))
        await stepper.engine.run_step(work, None)
        stepper.engine.cancel()
        await stepper.abort()
        assert stepper.engine.openable() == (3, 2, 1)
        await stepper.engine.open(2, create=False)
        await stepper.replay(3)
        await make_steps(stepper, 1)
        await stepper.new_incarnation()
        await stepper.engine.open(4, create=False)
        await make_steps(stepper, 1)
        latest = {
            json.loads(row.value or b"")["name"]: json.loads(row.value or b"")
            for row in stepper.committed("out")
        }
        expected: Counter[str] = Counter(
            key.decode() for step in range(1, 6) for key, _ in records_of(step)
        ) + Counter({"k1": 1})
        assert {name: row["n"] for name, row in latest.items()} == expected

    run_scenario([counts], scenario, {"numbers": (2, {})}, {"out": (1, KEYED)})


def test_a_query_that_fails_in_its_state_is_run_again_on_the_state_before(run_scenario: RunScenario) -> None:
    def divided(numbers: Any) -> Any:
        inverse = F.udf(lambda value: 100 // int(value), "long")
        grouped = numbers.groupBy(F.col("key").cast("string").alias("name")).agg(
            F.sum(F.col("value").cast("string").cast("long")).alias("n")
        )
        return {"out": kcontrol.output(grouped.withColumn("n", inverse("n")), mode="update")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("numbers", [(b"a", b"5")])
        await stepper.step()
        stepper.produce("numbers", [(b"a", b"-5"), (b"a", b"15")])
        work = await stepper.begin(2, stepper.division({("numbers", 0): 2, ("numbers", 1): 0}))
        with pytest.raises(StepFailedError, match="ZeroDivisionError"):
            await stepper.engine.run_step(work, None)
        await stepper.abort()
        await stepper.engine.open(1, create=False)
        await stepper.step()
        assert json.loads(stepper.committed("out")[-1].value or b"")["n"] == 100 // 15

    run_scenario([divided], scenario, {"numbers": (2, {})}, {"out": (1, KEYED)})


def test_a_job_that_was_begun_for_a_step_that_did_not_come_leaves_the_state_as_it_was(
    run_scenario: RunScenario, spark: SparkSession
) -> None:
    """It would be an empty batch, and the next one would be on a version of the state that no step has made."""

    async def scenario(stepper: Stepper) -> None:
        asked: list[bool] = []
        ask = stepper.host.job_ahead

        def heard(query: str, number: int) -> Any:
            job = ask(query, number)
            asked.append(job.json is not None)
            return job

        stepper.host.job_ahead = heard
        await stepper.engine.open(0, create=True)
        for _ in range(4):
            # Whatever is begun ahead of a step waits less long than the next one takes to come.
            stepper.produce("numbers", [(b"a", b"1"), (b"b", b"2")])
            await stepper.step()
        until(lambda: False in asked, "a job was begun in vain")
        stepper.produce("numbers", [(b"a", b"1")])
        await stepper.step()
        assert False in asked
        latest = {
            json.loads(row.value or b"")["name"]: json.loads(row.value or b"")["n"]
            for row in stepper.committed("out")
        }
        assert latest == {"a": 5, "b": 4}

    spark.conf.set(WAIT_SETTING, "3000")
    try:
        run_scenario([counts], scenario, {"numbers": (1, {})}, {"out": (1, KEYED)})
    finally:
        spark.conf.unset(WAIT_SETTING)


def test_a_query_that_is_started_again_leaves_no_listener_of_sparks_behind(
    run_scenario: RunScenario, spark: SparkSession
) -> None:
    """It would hold the session of each opening, with its plans, for as long as the node runs."""
    bus: Any = spark.sparkContext._jsc.sc().listenerBus()  # type: ignore[union-attr]

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await make_steps(stepper, 1)
        await stepper.engine.open(1, create=False)
        before = bus.listeners().size()
        for _ in range(2):
            await stepper.engine.open(1, create=False)
        assert bus.listeners().size() == before

    run_scenario([counts], scenario, {"numbers": (2, {})}, {"out": (1, KEYED)})


def windows(frame: DataFrame) -> DataFrame:
    late = frame.withWatermark("timestamp", "1 second")
    return late.groupBy(F.window("timestamp", "1 second")).count()


KEPT: dict[str, tuple[Query, OutputMode]] = {
    "grouped": (lambda frame: frame.groupBy("name").count(), "update"),
    "grouped, complete": (lambda frame: frame.groupBy("name").count(), "complete"),
    "unique": (lambda frame: frame.dropDuplicates(["name"]), "append"),
    "of what is parsed, filtered and exploded": (
        lambda frame: frame.where("at > 2").select(F.explode(F.array("name"))).groupBy("col").count(),
        "update",
    ),
}
LEFT: dict[str, tuple[Query, OutputMode, str]] = {
    "a watermark": (windows, "update", "it has a watermark"),
    "sorted": (
        lambda frame: frame.groupBy("name").count().orderBy("name"),
        "complete",
        "it keeps state, and its plan has Sort",
    ),
    "now": (
        lambda frame: frame.groupBy("name").agg(F.max(F.current_timestamp()).alias("at")),
        "update",
        "it takes the time of the step",
    ),
    "a table": (
        lambda frame: (
            frame.groupBy("name").count().join(frame.sparkSession.range(3), F.col("count") == F.col("id"))
        ),
        "update",
        "it reads a table",
    ),
    "an input twice": (
        lambda frame: frame.union(frame).groupBy("name").count(),
        "update",
        "it reads an input twice",
    ),
}


@pytest.fixture
def server() -> Iterator[ChannelServer]:
    made = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    yield made
    made.close()


@pytest.mark.parametrize("name", KEPT)
def test_a_state_that_is_all_that_differs_is_planned_once(
    spark: SparkSession, server: ChannelServer, name: str
) -> None:
    query, mode = KEPT[name]
    bound = bind(pipeline_of(query, mode=mode), spark, server.address)
    assert (bound.planning, bound.recorded) == ("once", ("out0",))
    assert bound.queries[0].raw_of is not None
    assert bound.queries[0].once is None


@pytest.mark.parametrize("name", LEFT)
def test_what_else_differs_from_step_to_step_is_left_to_spark(
    spark: SparkSession, server: ChannelServer, name: str
) -> None:
    query, mode, why = LEFT[name]
    bound = bind(pipeline_of(query, mode=mode), spark, server.address)
    assert bound.planning == f"each step: query 'out0': {why}"
    assert bound.queries[0].raw_of is None


def test_a_query_with_state_and_one_without_are_both_planned_once(
    spark: SparkSession, server: ChannelServer
) -> None:
    bound = bind(pipeline_of(lambda frame: frame, KEPT["unique"][0]), spark, server.address)
    assert (bound.planning, bound.recorded) == ("once", ("out1",))
    assert [query.once is not None for query in bound.queries] == [True, False]


def test_with_another_spark_every_step_is_planned(
    spark: SparkSession, server: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kcontrol.adapters.spark.internals import kept

    monkeypatch.setattr(kept, "USED_BY_KEPT", {"org.apache.spark.rdd.RDD": ("no_such_field",)})
    bound = bind(pipeline_of(KEPT["unique"][0]), spark, server.address)
    assert bound.planning.startswith("each step: query 'out0': this Spark calls itself")
    assert "org.apache.spark.rdd.RDD.no_such_field" in bound.planning
