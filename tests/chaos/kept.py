"""The pipeline of `--kept`: the same inputs and outputs as `pipeline.py`, with two states, one on the other, and nothing else
that differs from step to step.

It is one query, which is planned once, and whose jobs are begun ahead of their steps; or the same, planned in each step; or now
this way and now that, on the same directory. Its twin in plain Python is in `expected.py`.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol
from tests.chaos.names import CHECKPOINTS_VARIABLE, KEPT, LARGE_AMOUNT, NODES, PIPELINE
from tests.chaos.parts import INPUTS, LAYOUT, LIMITS, ROW_OUTPUTS, STEPS, outputs_row

# By turns: each process that is started has another number.
PLAN_ONCE = KEPT == "once" or (KEPT == "both" and os.getpid() % 2 == 0)

pipeline = kcontrol.Pipeline(
    PIPELINE,
    inputs=INPUTS,
    outputs=ROW_OUTPUTS,
    nodes=NODES,
    checkpoint=kcontrol.Checkpoint(os.environ[CHECKPOINTS_VARIABLE], every="3 s", keep=2),
    steps=STEPS,
    limits=LIMITS,
    layout=LAYOUT,
    plan_once=PLAN_ONCE,
)


@pipeline.query
def totals(orders: DataFrame, visits: DataFrame) -> object:
    """By user, since the beginning: the different amounts that he ordered for, their sum, and visits. And once more, to the
    other output, whoever came often."""
    no, one = F.lit(0).cast("long"), F.lit(1).cast("long")
    new = orders.select("user", "amount").dropDuplicates(["user", "amount"])
    bought = new.select("user", one.alias("orders"), "amount", no.alias("visits"))
    came = visits.select(
        F.col("key").cast("string").alias("user"), no.alias("orders"), no.alias("amount"), one.alias("visits")
    )
    by_user = bought.unionByName(came).groupBy("user")
    summed = by_user.agg(*(F.sum(name).alias(name) for name in ("orders", "amount", "visits")))
    often = F.when(
        F.col("visits") >= LARGE_AMOUNT, outputs_row("large", F.lit(None), F.struct("user", "visits"))
    )
    whole = outputs_row("totals", F.col("user"), F.struct("user", "orders", "amount", "visits"))
    rows = summed.select(F.explode(F.array_compact(F.array(whole, often))).alias("row")).select("row.*")
    return kcontrol.outputs(rows, ["totals", "large"], mode="update")
