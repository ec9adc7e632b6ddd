"""Departures by carrier, on three nodes: state, a keyed and an unkeyed output. The pipeline
of docker/ and docs/deploy.md.

`examples/departures_feed.py` makes its topics and keeps sending. Several nodes may keep state by carrier
because the records of a carrier are always in one partition, and input and output have as many partitions.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol

NODES = 3
LATE_MIN = 15
"""Minutes after which a departure counts as late."""
CHECKPOINTS = os.environ.get("DEPARTURES_CHECKPOINTS")
"""Where state is saved, on something that all nodes reach: `file:///checkpoints`,
`s3://bucket/path`; or beside the work."""

pipeline = kcontrol.Pipeline(
    "departures",
    nodes=NODES,
    inputs=[
        kcontrol.KafkaInput(
            "departures",
            topic="departures",
            value_format="json",
            schema="carrier STRING, origin STRING, delay_min INT",
            partitioned_by="carrier",
        )
    ],
    outputs=[
        kcontrol.KafkaOutput("carriers", topic="carriers", value_format="json", key="carrier"),
        kcontrol.KafkaOutput("late", topic="late", value_format="json"),
    ],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="500 ms", max_records=100_000),
    checkpoint=kcontrol.Checkpoint(
        CHECKPOINTS, every="60 s", keep_steps=10_000, shared=CHECKPOINTS is not None
    ),
)


@pipeline.query
def carriers(departures: DataFrame) -> dict[str, object]:
    """By carrier, since the beginning: departures, how many were late, and the minutes of all delays."""
    totals = departures.groupBy("carrier").agg(
        F.count("*").alias("departures"),
        F.count_if(F.col("delay_min") >= LATE_MIN).alias("late"),
        F.sum("delay_min").alias("delay_min"),
    )
    return {"carriers": kcontrol.output(totals, mode="update")}


@pipeline.query
def late(departures: DataFrame) -> DataFrame:
    """The departures that were late."""
    return departures.where(F.col("delay_min") >= LATE_MIN)
