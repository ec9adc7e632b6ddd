"""kcontrol's side of a workload: the query that Spark's side runs too. What varies comes in the
environment."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol
from bench.queries import MODES, PARTS, QUERIES, merged, numbered

WORKLOAD = os.environ["BENCH_WORKLOAD"]
STEP_RECORDS = int(os.environ["BENCH_STEP_RECORDS"])
MIN_RECORDS = int(os.environ["BENCH_MIN_RECORDS"])
CHECKPOINT_EVERY = os.environ["BENCH_CHECKPOINT_EVERY"]
CORES, NODES = int(os.environ["BENCH_CORES"]), int(os.environ["BENCH_NODES"])
MEETS = os.environ["BENCH_MEETS"]
"""How equal keys come to one node: see `bench/exchange.py`; '' where one reads all of them."""

pipeline = kcontrol.Pipeline(
    os.environ["BENCH_PIPELINE"],
    inputs=[
        kcontrol.KafkaInput(
            "records",
            topic=os.environ["BENCH_SOURCE"],
            partitioned_by="key" if MEETS == "partitioned" else None,
        )
    ],
    outputs=[kcontrol.KafkaOutput("written", topic=os.environ["BENCH_SINK"])],
    nodes=NODES,
    checkpoint=kcontrol.Checkpoint(os.environ["BENCH_CHECKPOINTS"], every=CHECKPOINT_EVERY)
    if CHECKPOINT_EVERY
    else None,
    plan_once=os.environ["BENCH_PLAN_ONCE"] == "1",
    steps=kcontrol.StepPolicy(min_records=MIN_RECORDS, max_records=STEP_RECORDS, max_delay="60 s"),
    limits=kcontrol.Limits(step_timeout="5 min", transaction_timeout="6 min"),
    layout=kcontrol.Layout(max_tasks=CORES, shuffle_partitions=max(CORES, NODES) if MEETS else CORES),
)


@pipeline.query
def work(records: DataFrame) -> dict[str, object]:
    if MEETS == "combined":
        parts = [F.expr(text).alias(name) for name, text in PARTS.items()]
        found = merged(kcontrol.exchange(numbered(records), by="key", combine=parts))
    else:
        rows = records
        if MEETS in ("exchange", "delivered"):
            rows = kcontrol.exchange(records.select("key", "value"), by="key")
        found = QUERIES[WORKLOAD](rows)
    if MEETS in ("partitioned", "exchange", "combined"):
        found = found.drop("key")
    return {"written": kcontrol.output(found, mode=MODES[WORKLOAD])}
