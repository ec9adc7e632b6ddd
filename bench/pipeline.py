"""kcontrol's side of a workload: the query that Spark's side runs too. What varies comes in the
environment."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

import kcontrol
from bench.queries import MODES, QUERIES

WORKLOAD = os.environ["BENCH_WORKLOAD"]
STEP_RECORDS = int(os.environ["BENCH_STEP_RECORDS"])
MIN_RECORDS = int(os.environ["BENCH_MIN_RECORDS"])
CHECKPOINT_EVERY = os.environ["BENCH_CHECKPOINT_EVERY"]

pipeline = kcontrol.Pipeline(
    os.environ["BENCH_PIPELINE"],
    inputs=[kcontrol.KafkaInput("records", topic=os.environ["BENCH_SOURCE"])],
    outputs=[kcontrol.KafkaOutput("written", topic=os.environ["BENCH_SINK"])],
    nodes=int(os.environ["BENCH_NODES"]),
    checkpoint=kcontrol.Checkpoint(os.environ["BENCH_CHECKPOINTS"], every=CHECKPOINT_EVERY)
    if CHECKPOINT_EVERY
    else None,
    plan_once=os.environ["BENCH_PLAN_ONCE"] == "1",
    steps=kcontrol.StepPolicy(min_records=MIN_RECORDS, max_records=STEP_RECORDS, max_delay="60 s"),
    limits=kcontrol.Limits(step_timeout="5 min", transaction_timeout="6 min"),
    layout=kcontrol.Layout(
        max_tasks=int(os.environ["BENCH_CORES"]), shuffle_partitions=int(os.environ["BENCH_CORES"])
    ),
)


@pipeline.query
def work(records: DataFrame) -> dict[str, object]:
    return {"written": kcontrol.output(QUERIES[WORKLOAD](records), mode=MODES[WORKLOAD])}
