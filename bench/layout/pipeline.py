"""A running count by key with a payload, whose rows are exchanged: its state is as large as it has keys. What varies comes
in the environment."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol

pipeline = kcontrol.Pipeline(
    os.environ["BENCH_PIPELINE"],
    inputs=[kcontrol.KafkaInput("records", topic=os.environ["BENCH_SOURCE"])],
    outputs=[kcontrol.KafkaOutput("written", topic=os.environ["BENCH_SINK"])],
    checkpoint=kcontrol.Checkpoint(os.environ["BENCH_CHECKPOINTS"], every="10 min", shared=True),
    steps=kcontrol.StepPolicy(min_records=1, max_delay="100 ms", max_records=200_000),
    limits=kcontrol.Limits(step_timeout="5 min", transaction_timeout="6 min", open_timeout="5 min"),
    layout=kcontrol.Layout(max_tasks=1, shuffle_partitions=int(os.environ["BENCH_SHARDS"])),
)


@pipeline.query
def counted(records: DataFrame) -> dict[str, object]:
    rows = kcontrol.exchange(records.select("key", "value"), by="key")
    kept = rows.groupBy("key").agg(F.count("*").alias("n"), F.max("value").alias("greatest"))
    # What is not used would not be kept.
    said = F.concat_ws(",", "n", F.crc32("greatest")).cast("binary").alias("value")
    return {"written": kcontrol.output(kept.select(said), mode="update")}
