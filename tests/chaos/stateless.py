"""The pipeline of `--stateless`: the same inputs and outputs as `pipeline.py`, of each record alone and without the
step's time.

It is one query, which is planned once, and whose jobs are begun ahead of their steps; or the same, planned in each step; or
there is another one beside it (`stateless_each.py`), for each way one. Its twin in plain Python is in `expected.py`.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import kcontrol
from tests.chaos.names import LARGE_AMOUNT, NODES, PIPELINE, PREFIXES, STATELESS
from tests.chaos.parts import INPUTS, LAYOUT, LIMITS, ROW_OUTPUTS, STEPS, outputs_row


def rows(orders: DataFrame, visits: DataFrame) -> object:
    """Of an order its amount, and itself if that is large; of a visit, that there was one."""
    user = F.col("key").cast("string")
    large = F.when(
        F.col("amount") >= LARGE_AMOUNT, outputs_row("large", F.lit(None), F.struct("id", "user", "amount"))
    )
    bought = F.array_compact(F.array(_counted(F.col("user"), 1, F.col("amount"), 0), large))
    of_orders = orders.select(F.explode(bought).alias("row")).select("row.*")
    of_visits = visits.select(_counted(user, 0, F.lit(0), 1).alias("row")).select("row.*")
    return kcontrol.outputs(of_orders.unionByName(of_visits), ["totals", "large"])


def _counted(user: Column, orders: int, amount: Column, visits: int) -> Column:
    counts = (F.lit(orders).alias("orders"), amount.alias("amount"), F.lit(visits).alias("visits"))
    return outputs_row("totals", user, F.struct(user.alias("user"), *counts))


def planned(name: str, *, once: bool) -> kcontrol.Pipeline:
    """It, under this name, and writing to the topics of this name."""
    made = kcontrol.Pipeline(
        name,
        inputs=INPUTS,
        outputs=[replace(one, topic=PREFIXES[name] + one.name) for one in ROW_OUTPUTS],
        nodes=NODES,
        steps=STEPS,
        limits=LIMITS,
        layout=LAYOUT,
        plan_once=once,
    )
    made.query(rows)
    return made


pipeline = planned(PIPELINE, once=STATELESS != "each")
