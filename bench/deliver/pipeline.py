"""The pipeline whose output is delivered: rows as they come, with their keys. What varies comes in the environment."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

import kcontrol

STEP_ROWS = int(os.environ["BENCH_STEP_ROWS"])

pipeline = kcontrol.Pipeline(
    os.environ["BENCH_PIPELINE"],
    inputs=[kcontrol.KafkaInput("records", topic=os.environ["BENCH_SOURCE"])],
    outputs=[kcontrol.KafkaOutput("written", topic=os.environ["BENCH_PIPELINE"])],
    steps=kcontrol.StepPolicy(min_records=STEP_ROWS, max_records=STEP_ROWS, max_delay="60 s"),
    layout=kcontrol.Layout(
        max_tasks=int(os.environ["BENCH_CORES"]), shuffle_partitions=int(os.environ["BENCH_CORES"])
    ),
)


@pipeline.query
def written(records: DataFrame) -> dict[str, DataFrame]:
    return {"written": records.select("key", "value")}
