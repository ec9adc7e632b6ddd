"""A pipeline that reads numbers from an input of the kind that ANY_INPUT names. It imports nothing but kcontrol and what
kcontrol needs."""

from __future__ import annotations

import json
import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol

NAME, KIND = os.environ.get("ANY_PIPELINE", "any"), os.environ.get("ANY_INPUT", "generator")
"""KIND: `generator`, `registry` (Avro), `confluent-json`, `confluent-protobuf`, or where files are: a URL or an object of a
store, or with a pattern as its last part a directory or a prefix. Those that end in `.csv` are CSV, others JSON."""
ROWS = int(os.environ.get("ANY_ROWS", "12000"))
NUMBER: dict[str, Any] = {
    "registry": json.dumps(
        {"type": "record", "name": "Number", "fields": [{"name": "number", "type": "long"}]}
    ),
    "confluent-json": "number BIGINT",
    "confluent-protobuf": 'syntax = "proto3"; message Number { int64 number = 1; }',
}


def _input() -> kcontrol.KafkaInput | kcontrol.FileInput | kcontrol.GeneratorInput:
    if KIND == "generator":
        return kcontrol.GeneratorInput("lines", rows=ROWS, rows_per_second=200, partitions=2, seed=3)
    if KIND in NUMBER:
        form: Any = "confluent-avro" if KIND == "registry" else KIND
        return kcontrol.KafkaInput("lines", topic=f"{NAME}-lines", value_format=form, schema=NUMBER[KIND])
    path, pattern = KIND.rsplit("/", 1) if "*" in KIND else (KIND, None)
    if KIND.endswith(".csv"):
        schema = "number BIGINT, filling STRING"
        return kcontrol.FileInput(
            "lines", path=path, pattern=pattern, value_format="csv", schema=schema, header=True
        )
    return kcontrol.FileInput(
        "lines", path=path, pattern=pattern, value_format="json", schema="number BIGINT"
    )


pipeline = kcontrol.Pipeline(
    NAME,
    inputs=[_input()],
    outputs=[
        kcontrol.KafkaOutput(
            "rows",
            topic=f"{NAME}-rows",
            value_format="confluent-json" if KIND == "confluent-json" else "json",
        ),
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
