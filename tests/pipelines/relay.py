"""A pipeline without state, whose number of nodes may change: every record goes through, in capitals.

What it is called and where its checkpoints go comes from the environment. It saves as often as it can and
keeps as little of its log as it may, so that steps are dropped early.
"""

import os

from pyspark.sql import functions as F

import kcontrol

NAME = os.environ["RELAY_PIPELINE"]

pipeline = kcontrol.Pipeline(
    NAME,
    inputs=[kcontrol.KafkaInput("words", topic=f"{NAME}-words")],
    outputs=[kcontrol.KafkaOutput("shouts", topic=f"{NAME}-shouts")],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="50 ms", max_records=40),
    checkpoint=kcontrol.Checkpoint(os.environ["RELAY_CHECKPOINTS"], every="50 ms", keep=1, keep_steps=4),
    limits=kcontrol.Limits(heartbeat_timeout="5 s", step_timeout="150 s", transaction_timeout="200 s"),
)


@pipeline.query
def shouts(words):
    return {"shouts": words.select(F.upper(F.col("value").cast("string")).alias("value"))}
