"""The pipeline of `--exchange`: inputs that are partitioned by nothing, so that rows meet by key across the nodes, within
each step.

A keyed total over both inputs, which is brought to the nodes that own its partitions; windows that are closed by one
watermark of all nodes; and a query that exchanges nothing. Its twin in plain Python is in `expected.py`.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol
from tests.chaos.names import CHECKPOINTS_VARIABLE, DELAY_S, LARGE_AMOUNT, NODES, PIPELINE, WINDOW_S
from tests.chaos.parts import INPUTS, LIMITS, STEPS

pipeline = kcontrol.Pipeline(
    PIPELINE,
    inputs=INPUTS,
    outputs=[
        kcontrol.KafkaOutput("totals", topic="totals", value_format="json", key="user"),
        kcontrol.KafkaOutput("large", topic="large", value_format="json"),
        kcontrol.KafkaOutput("closed", topic="closed", value_format="json"),
    ],
    nodes=NODES,
    checkpoint=kcontrol.Checkpoint(os.environ[CHECKPOINTS_VARIABLE], every="3 s", keep=2),
    steps=STEPS,
    limits=LIMITS,
    layout=kcontrol.Layout(records_per_task=30, shuffle_partitions=max(2, NODES)),
)


@pipeline.query
def totals(orders: DataFrame, visits: DataFrame) -> dict[str, object]:
    """By user, since the beginning: orders, their amount, and visits."""
    no, one = F.lit(0).cast("long"), F.lit(1).cast("long")
    bought = orders.select("user", one.alias("orders"), "amount", no.alias("visits"))
    came = visits.select(
        F.col("key").cast("string").alias("user"), no.alias("orders"), no.alias("amount"), one.alias("visits")
    )
    both = kcontrol.exchange(bought, by="user").unionByName(kcontrol.exchange(came, by="user"))
    summed = both.groupBy("user").agg(*(F.sum(name).alias(name) for name in ("orders", "amount", "visits")))
    return {"totals": kcontrol.output(summed, mode="update")}


@pipeline.query
def closed(orders: DataFrame) -> DataFrame:
    """Of the orders of each window, once it is closed: how many, and their amount."""
    timed = orders.select(F.timestamp_seconds("id").alias("ts"), "amount")
    late = timed.withWatermark("ts", f"{DELAY_S} seconds")
    mine = kcontrol.exchange(late, by=F.window("ts", f"{WINDOW_S} seconds"))
    counted = mine.groupBy("window").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    return counted.select(F.unix_seconds("window.start").alias("start"), "orders", "amount")


@pipeline.query
def large(orders: DataFrame) -> DataFrame:
    """The orders of at least that amount, stamped with the step's time."""
    stamp = F.unix_millis(F.current_timestamp()).alias("at_ms")
    return orders.where(F.col("amount") >= LARGE_AMOUNT).select("id", "user", "amount", stamp)
