"""The pipeline that rows are pushed into. What varies comes in the environment."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

import kcontrol

pipeline = kcontrol.Pipeline(
    os.environ["BENCH_PIPELINE"],
    inputs=[
        kcontrol.KafkaInput(
            "rows",
            topic=os.environ["BENCH_SOURCE"],
            value_format="json",
            schema="id STRING, amount INT, note STRING",
        )
    ],
    outputs=[kcontrol.KafkaOutput("written", topic=os.environ["BENCH_PIPELINE"])],
    layout=kcontrol.Layout(
        max_tasks=int(os.environ["BENCH_CORES"]), shuffle_partitions=int(os.environ["BENCH_CORES"])
    ),
)


@pipeline.query
def written(rows: DataFrame) -> dict[str, DataFrame]:
    return {"written": rows.select(rows.note.cast("binary").alias("value"))}
