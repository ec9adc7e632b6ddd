"""`python -m kcontrol.apps.class_training FILE`: has a JVM load the classes that a node needs, and archive them in FILE.

They are loaded by what a node does: its engine makes steps, goes back and makes them again, of queries that are planned once
and of queries that Spark plans in each step. Their rows are generated and nothing is written, so no Kafka is needed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.internals import own_gateway
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.session.build import JVM_OPTIONS, session
from kcontrol.adapters.spark.session.class_archive import training_options
from kcontrol.adapters.spark.session.collector import collector_option
from kcontrol.apps.rerun import scratch_engine
from kcontrol.apps.warm_up import rehearse
from kcontrol.core.model import (
    EMPTY_DIGEST,
    InputRange,
    InputSlice,
    PipelineSpec,
    Reason,
    StepBoundary,
    Token,
)
from kcontrol.core.step.layout import layout_of
from kcontrol.definition.frames import output
from kcontrol.definition.generated import GeneratorInput
from kcontrol.definition.parts import KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.resolve import FoundInput, OutputFacts, build_spec
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger(__name__)

STEPS, ROWS = 3, 50
"""ROWS: of a step, by partition."""
PARTITIONS = 2
_START_MS = 1_700_000_000_000
_NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")
"""Is never asked."""
_TIMEOUT_S = 120
_ORDERS = GeneratorInput("orders", rows_per_second=1_000, partitions=PARTITIONS)
_OUTPUTS = {name: OutputFacts(name, PARTITIONS) for name in ("totals", "large")}


def trained_on(*, plan_once: bool) -> Pipeline:
    """A pipeline of what most are made of: rows of JSON, a query that keeps nothing, one with state."""
    made = Pipeline(
        "training",
        inputs=[_ORDERS],
        outputs=[
            KafkaOutput("totals", topic="totals", value_format="json", key="customer"),
            KafkaOutput("large", topic="large", value_format="json"),
        ],
        plan_once=plan_once,
    )

    @made.query
    def totals(orders: DataFrame) -> dict[str, object]:
        summed = (
            _parsed(orders)
            .groupBy("customer")
            .agg(sf.sum("amount").alias("amount"), sf.count("*").alias("n"))
        )
        return {"totals": output(summed, mode="update")}

    @made.query
    def large(orders: DataFrame) -> DataFrame:
        stamp = sf.unix_millis(sf.current_timestamp()).alias("at_ms")
        return _parsed(orders).where(sf.col("amount") > 2).select("customer", "amount", stamp)

    return made


def _parsed(orders: DataFrame) -> DataFrame:
    customer = sf.concat(sf.lit("c"), (sf.col("value") % 7).cast("string")).alias("customer")
    text = sf.to_json(sf.struct(customer, (sf.col("value") % 5).alias("amount")))
    return orders.select(sf.from_json(text, "customer STRING, amount BIGINT").alias("order")).select(
        "order.*"
    )


def train(archive: Path) -> None:
    """Make the steps, then end the JVM, which writes the archive. Raises StepFailedError."""
    options = f"{training_options(archive)} {collector_option({})}"
    spark = session("kcontrol-training", "local[2]", {JVM_OPTIONS: options})
    gateway = own_gateway()
    assert gateway is not None
    asyncio.run(_make_steps(spark, trained_on(plan_once=True)))
    try:
        asyncio.run(_make_steps(spark, trained_on(plan_once=False)))
    except StepFailedError as error:
        # Spark gives a planner process of a stream ten seconds to start, whatever the load of the machine.
        _log.warning("trained without queries that Spark plans in each step: %s", error)
    spark.stop()
    gateway.shutdown()
    # The JVM ends when its standard input does, and writes the archive first.
    gateway.proc.stdin.close()
    gateway.proc.wait(_TIMEOUT_S)


async def _make_steps(spark: SparkSession, pipeline: Pipeline) -> None:
    """The steps; the last one again, as a node that comes back."""
    host = ChannelEndpoint(spark, _NOBODY)
    try:
        bound = bind(pipeline, spark, host.channel.address)
        spec = build_spec(pipeline, _found(), _OUTPUTS, bound.facts())
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            place = NodePlace(0, Path(scratch, "work"), checkpoints=Path(scratch))
            engine = scratch_engine(spark, bound, host, place, spec)
            try:
                await engine.open(0, create=True)
                for number in range(1, STEPS + 1):
                    await rehearse(engine, _boundary(spec, number), spec, 0)
                begin = STEPS - 1 if STEPS - 1 in engine.openable() else 0
                await engine.open(begin, create=not begin)
                await rehearse(engine, _boundary(spec, begin + 1), spec, 0)
            finally:
                await engine.close()
                engine.shut_down()
    finally:
        host.close()


def _found() -> dict[str, FoundInput]:
    address, begins = _ORDERS.address("", _START_MS)
    return {_ORDERS.name: FoundInput(_ORDERS.log_id, begins, address)}


def _boundary(spec: PipelineSpec, step: int) -> StepBoundary:
    """A step of the next rows, as if it had been made: what is run by it is compared with nothing."""
    [source] = spec.inputs
    division = [
        InputRange(source.name, source.topic, source.topic_id, partition, (step - 1) * ROWS, step * ROWS)
        for partition in range(PARTITIONS)
    ]
    read = [
        InputSlice(
            each.input, each.topic, each.topic_id, each.partition, each.from_, each.to, ROWS, EMPTY_DIGEST
        )
        for each in division
    ]
    now_ms = _START_MS + 1_000 * step
    return StepBoundary(
        pipeline=spec.pipeline,
        step=step,
        token=Token(1, step, 1, 0, (0,)),
        now_ms=now_ms,
        reason=Reason.RECORDS,
        fingerprint=spec.fingerprint,
        nodes=1,
        inputs=tuple(read),
        outputs=(),
        layout=layout_of(spec, division),
        paused_inputs=(),
        opened_ms=now_ms,
        committed_ms=now_ms,
        skipped=(),
        watermark_moved=False,
    )


if __name__ == "__main__":
    train(Path(sys.argv[1]))
