"""Two nodes, one of which has an input and an output to itself: a total over all of that input, without a key, into
a topic of one partition, beside words that both nodes read.

What it is called comes from the environment.
"""

import os

from pyspark.sql import functions as F

import kcontrol

NAME = os.environ["PINNED_PIPELINE"]

pipeline = kcontrol.Pipeline(
    NAME,
    nodes=2,
    inputs=[
        kcontrol.KafkaInput("amounts", topic=f"{NAME}-amounts", node=1),
        kcontrol.KafkaInput("words", topic=f"{NAME}-words"),
    ],
    outputs=[
        kcontrol.KafkaOutput("total", topic=f"{NAME}-total", node=1),
        kcontrol.KafkaOutput("shouts", topic=f"{NAME}-shouts"),
    ],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="50 ms", max_records=60),
    limits=kcontrol.Limits(heartbeat_timeout="5 s", step_timeout="150 s", transaction_timeout="200 s"),
)


@pipeline.query
def total(amounts):
    sums = amounts.agg(
        F.sum(F.col("value").cast("string").cast("long")).alias("sum"), F.count("*").alias("n")
    )
    shown = F.concat_ws(" of ", "sum", "n").alias("value")
    return {"total": kcontrol.output(sums.select(shown), mode="update")}


@pipeline.query
def shouts(words):
    return {"shouts": words.select(F.upper(F.col("value").cast("string")).alias("value"))}
