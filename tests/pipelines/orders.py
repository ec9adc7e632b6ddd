"""The pipeline of the end-to-end and recovery tests: two inputs, two queries, a keyed and an unkeyed output.

Names come from the environment, so that every test has its own. All numbers are integers, so an oracle can
recompute each step's output exactly.
"""

import os

from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import kcontrol

NAME = os.environ["ORDERS_PIPELINE"]
BREAK_ON = os.environ.get("ORDERS_BREAK_ON", "")
"""An order's id that makes the query raise, as a bug in a user's code would."""
LIE = bool(os.environ.get("ORDERS_LIE"))
"""Adds one to every amount: other code than the log was made with."""
CHECKPOINTS = os.environ.get("ORDERS_CHECKPOINTS", "")
"""Where state is saved; nowhere by default."""
CHECKPOINT_EVERY = os.environ.get("ORDERS_CHECKPOINT_EVERY", "1 h")
"""So long that it is only on request, unless a test wants more."""
KEEP = int(os.environ.get("ORDERS_KEEP", "1"))
"""How many checkpoints."""
TYPE_IN_WORDS = bool(os.environ.get("ORDERS_TYPE_IN_WORDS"))
"""Has a UDF's type read by Spark, so that the file can't be read without a session: one more start in each
command."""
PLAN_ONCE = not os.environ.get("ORDERS_PLAN_EACH_STEP")
"""Otherwise Spark plans each step anew, and there are planner processes."""
CHANGED = bool(os.environ.get("ORDERS_CHANGED"))
"""Another structure under the same name."""

pipeline = kcontrol.Pipeline(
    NAME,
    inputs=[
        kcontrol.KafkaInput(
            "orders",
            topic=f"{NAME}-orders",
            value_format="json",
            schema="id STRING, customer STRING, amount BIGINT",
        ),
        kcontrol.KafkaInput("payments", topic=f"{NAME}-payments"),
    ],
    outputs=[
        kcontrol.KafkaOutput("totals", topic=f"{NAME}-totals", key="customer", value_format="json"),
        kcontrol.KafkaOutput("copies", topic=f"{NAME}-copies"),
    ],
    steps=kcontrol.StepPolicy(
        min_records=1, max_delay="50 ms", max_records=int(os.environ.get("ORDERS_MAX_RECORDS", "1000"))
    ),
    plan_once=PLAN_ONCE,
    checkpoint=kcontrol.Checkpoint(CHECKPOINTS or None, every=CHECKPOINT_EVERY, keep=KEEP),
    # A machine that is busy with other tests may take its time; who is silent is dead all the same.
    limits=kcontrol.Limits(
        heartbeat_timeout="5 s",
        silence_timeout=os.environ.get("ORDERS_SILENCE_TIMEOUT", "60 s"),
        max_attempts=2,
        backoff="100 ms",
        step_timeout="150 s",
        transaction_timeout="200 s",
    ),
)


@F.udf("bigint" if TYPE_IN_WORDS else LongType())
def checked(order, amount):
    if order == BREAK_ON:
        raise ValueError(f"can't digest order {order}")
    return amount


@pipeline.query
def totals(orders):
    amounts = orders.withColumn("amount", checked("id", "amount")) if BREAK_ON else orders
    if LIE:
        amounts = amounts.withColumn("amount", F.col("amount") + 1)
    if CHANGED:
        amounts = amounts.dropDuplicates(["id"])
    summed = amounts.groupBy("customer").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    return {"totals": kcontrol.output(summed, mode="update")}


@pipeline.query
def copies(payments):
    return {"copies": payments.select("value")}
