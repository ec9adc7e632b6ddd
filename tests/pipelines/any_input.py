"""A pipeline that reads numbers from an input of the kind that ANY_INPUT names. It imports nothing but kcontrol and what
kcontrol needs."""

from __future__ import annotations

import json
import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol

NAME, KIND = os.environ.get("ANY_PIPELINE", "any"), os.environ.get("ANY_INPUT", "generator")
"""KIND: `generator`, `registry`, or where files are: a directory, a URL, or an object in a store."""
ROWS = int(os.environ.get("ANY_ROWS", "12000"))
NUMBER = json.dumps({"type": "record", "name": "Number", "fields": [{"name": "number", "type": "long"}]})


def _input() -> kcontrol.KafkaInput | kcontrol.FileInput | kcontrol.GeneratorInput:
    if KIND == "generator":
        return kcontrol.GeneratorInput("lines", rows=ROWS, rows_per_second=200, partitions=2, seed=3)
    if KIND == "registry":
        return kcontrol.KafkaInput(
            "lines", topic=f"{NAME}-lines", value_format="confluent-avro", schema=NUMBER
        )
    return kcontrol.FileInput(
        "lines",
        path=KIND,
        pattern="*.ndjson" if KIND.startswith("/") else None,
        value_format="json",
        schema="number BIGINT",
    )


pipeline = kcontrol.Pipeline(
    NAME,
    inputs=[_input()],
    outputs=[
        kcontrol.KafkaOutput("rows", topic=f"{NAME}-rows", value_format="json"),
        kcontrol.KafkaOutput("sums", topic=f"{NAME}-sums", value_format="json", key="rest"),
    ],
    steps=kcontrol.StepPolicy(max_delay="200 ms", max_records=9_001 if "/" in KIND else 400),
    checkpoint=kcontrol.Checkpoint(every="5 s"),
    # Long, because a machine that stands still for minutes is no fault of a node.
    limits=kcontrol.Limits(
        open_timeout="10 min", step_timeout="5 min", transaction_timeout="6 min", silence_timeout="10 min"
    ),
)


def _numbers(lines: DataFrame) -> DataFrame:
    return lines.select(F.col("value" if KIND == "generator" else "number").alias("number"))


@pipeline.query
def rows(lines: DataFrame) -> dict[str, DataFrame]:
    """Every row as it is."""
    return {"rows": _numbers(lines)}


@pipeline.query
def sums(lines: DataFrame) -> object:
    """State that a node which is killed has to have again."""
    grouped = _numbers(lines).groupBy((F.col("number") % 7).alias("rest")).agg(F.sum("number").alias("sum"))
    return {"sums": kcontrol.output(grouped, mode="update")}
