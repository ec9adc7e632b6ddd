"""A pipeline that reads files. It imports nothing but kcontrol and what kcontrol needs."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol

NAME = os.environ.get("FILED_PIPELINE", "filed")
WHERE = os.environ.get("FILED_DIRECTORY", "/var/spool/filed")
"""A directory, or the URL of a file."""

pipeline = kcontrol.Pipeline(
    NAME,
    inputs=[
        kcontrol.FileInput(
            "lines",
            path=WHERE,
            pattern="*.ndjson" if WHERE.startswith("/") else None,
            value_format="json",
            schema="number INT",
        )
    ],
    outputs=[
        kcontrol.KafkaOutput("rows", topic=f"{NAME}-rows", value_format="json"),
        kcontrol.KafkaOutput("sums", topic=f"{NAME}-sums", value_format="json", key="rest"),
    ],
    steps=kcontrol.StepPolicy(max_delay="200 ms", max_records=9_001),
    checkpoint=kcontrol.Checkpoint(every="5 s"),
    limits=kcontrol.Limits(
        open_timeout="10 min", step_timeout="5 min", transaction_timeout="6 min", silence_timeout="10 min"
    ),
)


@pipeline.query
def rows(lines: DataFrame) -> dict[str, DataFrame]:
    """Every row as it is."""
    return {"rows": lines.select("number", "offset")}


@pipeline.query
def sums(lines: DataFrame) -> object:
    """State that a node which is killed has to have again."""
    grouped = lines.groupBy((F.col("number") % 7).alias("rest")).agg(F.sum("number").alias("sum"))
    return {"sums": kcontrol.output(grouped, mode="update")}
