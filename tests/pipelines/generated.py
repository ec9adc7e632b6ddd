"""A pipeline on two nodes that needs no producer. It imports nothing but kcontrol and what kcontrol needs."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol

NAME = os.environ.get("GENERATED_PIPELINE", "generated")

pipeline = kcontrol.Pipeline(
    NAME,
    nodes=2,
    inputs=[
        kcontrol.GeneratorInput(
            "load", rows=12_000, rows_per_second=1_000, ramp_up="2 s", partitions=3, seed=11, randoms=["draw"]
        )
    ],
    outputs=[kcontrol.KafkaOutput("rows", topic=f"{NAME}-rows", value_format="json")],
    steps=kcontrol.StepPolicy(max_delay="200 ms", max_records=1_000),
    # Long, because a machine that stands still for minutes is no fault of a node.
    limits=kcontrol.Limits(
        open_timeout="10 min", step_timeout="5 min", transaction_timeout="6 min", silence_timeout="10 min"
    ),
)


@pipeline.query
def rows(load: DataFrame) -> dict[str, DataFrame]:
    """Every row as it is."""
    return {"rows": load.select("value", F.unix_micros("timestamp").alias("us"), "draw")}
