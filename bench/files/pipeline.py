"""kcontrol's side. What varies comes in the environment."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

import kcontrol
from bench.files import work

STEP_BYTES = int(os.environ["BENCH_STEP_BYTES"])

pipeline = kcontrol.Pipeline(
    os.environ["BENCH_PIPELINE"],
    inputs=[
        kcontrol.FileInput(
            "lines",
            path=os.environ["BENCH_LINES"],
            pattern=os.environ["BENCH_PATTERN"] or None,
            value_format="json",
            schema=work.SCHEMA,
        )
    ],
    outputs=[kcontrol.KafkaOutput("written", topic=os.environ["BENCH_PIPELINE"])],
    steps=kcontrol.StepPolicy(min_records=STEP_BYTES, max_records=STEP_BYTES, max_delay="60 s"),
    layout=kcontrol.Layout(
        max_tasks=int(os.environ["BENCH_CORES"]), shuffle_partitions=int(os.environ["BENCH_CORES"])
    ),
)


@pipeline.query
def written(lines: DataFrame) -> dict[str, DataFrame]:
    return {"written": work.work(lines)}
