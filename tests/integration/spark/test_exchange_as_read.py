"""Senders that give on columns of an input as they are: the tasks that read them send them, and what they send is what Spark
would have sent, row by row and digest by digest. And senders with something to compute, which are one plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import kcontrol
from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.engine.sent_plan import SentPlan
from kcontrol.adapters.spark.engine.state_plans import StatePlans
from kcontrol.adapters.spark.internals import PlannedFrame, kept
from kcontrol.adapters.spark.query import exchanging
from kcontrol.adapters.spark.query.as_read import sent_as_read
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.sink.sent_columns import SentColumns
from kcontrol.adapters.spark.source.as_read import SentAsRead
from kcontrol.core.model import StepResult
from kcontrol.core.step.exchange import in_order, runs_for
from kcontrol.definition.generated import GeneratorInput
from kcontrol.definition.parts import TaskLayout
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_exchange_stages import ME, NODES, OTHER, OtherNode, begun
from tests.support.dice import seeded

RAW = pa.schema([("who", pa.binary()), ("value", pa.binary()), ("offset", pa.int64())])
LAYOUT = TaskLayout(max_tasks=2, shuffle_partitions=4)


def counted(numbers: Any) -> Any:
    rows = numbers.select(F.col("key").alias("who"), "value", "offset")
    mine = kcontrol.exchange(rows, by="who", name="users")
    grouped = mine.groupBy("who").agg(F.count("*").alias("n"), F.sum("offset").alias("total"))
    return {
        "out": kcontrol.output(
            grouped.select(F.to_json(F.struct("n", "total")).alias("value")), mode="update"
        )
    }


def produced(stepper: Stepper, seed_rows: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    for partition in range(2):
        stepper.produce("numbers", seed_rows[partition::2], partition)


def plans_of(stepper: Stepper, query: str) -> list[Any]:
    plans = stepper.engine._queries._once[query]._plans
    assert isinstance(plans, StatePlans)
    return list(plans._plans.values())


@pytest.mark.parametrize("tasks", [1, 2])
def test_what_is_sent_without_spark_is_what_spark_would_send(run_scenario: RunScenario, tasks: int) -> None:
    """Steps that were made in one way are run again in the other, which compares the digests of what is sent to each node."""
    dice = seeded()

    def some() -> bytes | None:
        return None if dice.random() < 0.2 else dice.randbytes(dice.choice((0, 1, 3, 4, 7, 8, 31, 32, 80)))

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step, once in ((1, True), (2, False), (3, True)):
            if step > 1:
                await stepper.plan(once)
                await stepper.engine.open(step - 1, create=False)
            rows = [(some(), some()) for _ in range(40)]
            produced(stepper, rows)
            work = await begun(stepper)
            assert [each.senders for each in work.layout.exchanges] == [tasks]
            early = await stepper.engine.run_step(work, None)
            if once:
                [plan] = plans_of(stepper, "users.send")
                assert isinstance(plan, SentPlan)
            elsewhere = OtherNode(stepper, work).reads("users", early.sent, RAW)
            mine = rows[0::2]  # This node reads the first partition.
            shards = shards_by_spark(stepper.spark, [key for key, _ in mine])
            assert sorted(elsewhere, key=lambda row: row["offset"]) == [
                {"who": key, "value": value, "offset": offset}
                for offset, ((key, value), shard) in enumerate(
                    zip(mine, shards, strict=True), 20 * (step - 1)
                )
                if shard % NODES == OTHER
            ]
            result = await stepper.engine.run_stage(step, 1, runs_for(early.sent, ME))
            assert result.taken[0].records == 20 - len(elsewhere)
            await stepper.commit(work, replace(result, sent=in_order(early.sent)))
            await stepper.engine.finish_step(step)
        for once in (True, False):
            await stepper.plan(once)
            await stepper.engine.open(1, create=False)
            for step in (2, 3):
                await stepper.replay(step)

    layout = replace(LAYOUT, records_per_task=20 // tasks)
    run_scenario([counted], scenario, {"numbers": (2, {})}, {"out": (2, {})}, layout=layout, nodes=NODES)


def shards_by_spark(spark: SparkSession, keys: Sequence[bytes | None]) -> list[int]:
    """Of each key."""
    frame = spark.createDataFrame(
        [(number, key) for number, key in enumerate(keys)], "number int, who binary"
    )
    shard = F.pmod(F.hash("who"), F.lit(LAYOUT.shuffle_partitions)).alias("shard")
    return [row.shard for row in frame.select("number", shard).orderBy("number").collect()]


def test_an_attempt_that_is_aborted_leaves_nothing_of_what_was_sent(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in (1, 2):
            produced(stepper, [(b"k%d" % number, b"") for number in range(20)])
            work = await begun(stepper)
            await stepper.engine.run_step(work, None)
            await stepper.abort()
            await stepper.engine.open(step - 1, create=False)
            work = await begun(stepper)
            result = await both_stages(stepper, work)
            await stepper.commit(work, result)
            await stepper.engine.finish_step(step)
            assert sum(run.records for piece in result.sent for run in piece.runs) == 10

    run_scenario([counted], scenario, {"numbers": (2, {})}, {"out": (2, {})}, layout=LAYOUT, nodes=NODES)


async def both_stages(stepper: Stepper, work: Any) -> StepResult:
    early = await stepper.engine.run_step(work, None)
    result = await stepper.engine.run_stage(work.step, 1, runs_for(early.sent, ME))
    return replace(result, sent=in_order(early.sent))


def test_hashes_and_shards_are_those_of_spark(spark: SparkSession) -> None:
    schema = "b binary, s string, i int, l long, f boolean, t timestamp"
    dice = seeded()

    def row() -> list[Any]:
        size = dice.choice((0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 200))
        values = [
            dice.randbytes(size),
            "".join(dice.choice("aß€😀") for _ in range(size)),
            dice.randrange(-(1 << 31), 1 << 31),
            dice.randrange(-(1 << 63), 1 << 63),
            dice.random() < 0.5,
            dice.randrange(-(1 << 50), 1 << 50),
        ]
        return [None if dice.random() < 0.2 else value for value in values]

    numbered = schema.replace("t timestamp", "t long")
    frame = spark.createDataFrame([row() for _ in range(500)], numbered).withColumn(
        "t", F.timestamp_micros("t")
    )
    for by in (["b"], ["s", "i"], ["l", "f", "t"], []):
        wanted = exchanging.sent_columns(frame, by, 7).toArrow().combine_chunks().to_batches()[0]
        sent = SentAsRead("numbers", tuple((name, name) for name in frame.columns), tuple(by), 7)
        found = SentColumns(sent, frame.schema).of(wanted.select(frame.columns))
        for name in ("_shard", "_h1", "_h2"):
            assert found.column(name).equals(wanted.column(name)), (by, name)


def test_what_is_for_spark_to_do(spark: SparkSession) -> None:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    frames: dict[str, DataFrame] = {}
    made = kcontrol.Pipeline(
        "p",
        nodes=2,
        inputs=[
            kcontrol.KafkaInput("raw", topic="raw", include_headers=True),
            kcontrol.KafkaInput("parsed", topic="parsed", value_format="json", schema="user string"),
            GeneratorInput("made", rows_per_second=1, randoms=("x",)),
        ],
        outputs=[kcontrol.KafkaOutput("out", topic="out")],
    )

    def out(raw: DataFrame, parsed: DataFrame, made: DataFrame) -> Any:
        frames.update(raw=raw, parsed=parsed, made=made)
        return kcontrol.exchange(raw.select("key", "value"), by="key")

    made.query(out)
    try:
        [sender, _] = bind(made, spark, server.address).queries
    finally:
        server.close()
    assert sender.sending is not None
    raw, parsed, generated = frames["raw"], frames["parsed"], frames["made"]
    plain = sent_as_read(
        raw.alias("a").select(F.col("a.key").alias("k"), "a.offset").select("offset", "k"), ["k"], 4
    )
    assert plain is not None
    assert (plain.input, plain.columns, plain.by) == ("raw", (("offset", "offset"), ("k", "key")), ("k",))
    assert sent_as_read(generated.select("timestamp", "value"), ["value"], 4) is not None
    for frame in (
        raw.select("key", F.upper(F.col("topic"))),
        raw.filter("key is not null").select("key"),
        raw.select("key", "headers"),
        parsed.select("key", "user"),
        generated.select("value", "x"),
        raw.select("key").union(raw.select("key")),
    ):
        assert sent_as_read(frame, frame.columns[:1], 4) is None


def test_what_is_combined_is_one_plan_with_what_sends_it(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the rows that are read and those that are combined nothing is written down as a row."""
    planned: list[str] = []

    class Planned(PlannedFrame):
        def __init__(self, frame: DataFrame) -> None:
            planned.append(frame._jdf.queryExecution().executedPlan().toString())
            super().__init__(frame)

    monkeypatch.setattr(kept, "PlannedFrame", Planned)

    def combined(numbers: Any) -> Any:
        rows = numbers.select("key", F.length("value").alias("size"))
        mine = kcontrol.exchange(rows, by="key", name="users", combine=[F.sum("size").alias("size")])
        totals = mine.groupBy("key").agg(F.sum("size").cast("string").cast("binary").alias("value"))
        return {"out": kcontrol.output(totals.select("value"), mode="update")}

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in (1, 2):
            produced(stepper, [(b"k%d" % (number % 8), b"123") for number in range(40)])
            work = await begun(stepper)
            result = await both_stages(stepper, work)
            await stepper.commit(work, result)
            await stepper.engine.finish_step(step)
        [sending] = [plan for plan in planned if "_shard" in plan]
        read = sending[sending.rindex("Aggregate(") :]
        assert "Coalesce" not in read, sending
        assert "Exchange" not in sending
        assert "timestampType" in read, "what was read itself"

    layout = replace(LAYOUT, records_per_task=20)
    run_scenario([combined], scenario, {"numbers": (2, {})}, {"out": (2, {})}, layout=layout, nodes=NODES)
