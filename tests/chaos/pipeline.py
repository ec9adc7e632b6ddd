"""The pipeline that chaos runs: state over two inputs, and a stateless query, with a keyed and an unkeyed
output. Its twins are `stateless.py`, without state, and `exchanged.py`, whose nodes exchange rows.

All numbers are whole, so that nothing depends on an order; `at_ms` is the step's time, so that a replay that
took its own would show. Its twin in plain Python is `expected.py`.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol
from tests.chaos.names import CHECKPOINTS_VARIABLE, LARGE_AMOUNT, NODES, PIPELINE
from tests.chaos.parts import INPUTS, LAYOUT, LIMITS, STEPS

pipeline = kcontrol.Pipeline(
    PIPELINE,
    inputs=INPUTS,
    outputs=[
        kcontrol.KafkaOutput("totals", topic="totals", value_format="json", key="user"),
        kcontrol.KafkaOutput("large", topic="large", value_format="json"),
    ],
    nodes=NODES,
    checkpoint=kcontrol.Checkpoint(os.environ[CHECKPOINTS_VARIABLE], every="3 s", keep=2),
    steps=STEPS,
    limits=LIMITS,
    layout=LAYOUT,
)


@pipeline.query
def totals(orders: DataFrame, visits: DataFrame) -> dict[str, object]:
    """By user, since the beginning: orders, their amount, and visits."""
    no, one = F.lit(0).cast("long"), F.lit(1).cast("long")
    bought = orders.select("user", one.alias("orders"), "amount", no.alias("visits"))
    came = visits.select(
        F.col("key").cast("string").alias("user"), no.alias("orders"), no.alias("amount"), one.alias("visits")
    )
    by_user = bought.unionByName(came).groupBy("user")
    summed = by_user.agg(*(F.sum(name).alias(name) for name in ("orders", "amount", "visits")))
    return {"totals": kcontrol.output(summed, mode="update")}


@pipeline.query
def large(orders: DataFrame) -> DataFrame:
    """The orders of at least that amount, stamped with the step's time."""
    stamp = F.unix_millis(F.current_timestamp()).alias("at_ms")
    return orders.where(F.col("amount") >= LARGE_AMOUNT).select("id", "user", "amount", stamp)
