"""A pipeline without state, whose steps are small, which makes checkpoints often, and keeps few steps."""

import os

import kcontrol

NAME = os.environ["ORDERS_PIPELINE"]

pipeline = kcontrol.Pipeline(
    NAME,
    inputs=[kcontrol.KafkaInput("payments", topic=f"{NAME}-payments")],
    outputs=[kcontrol.KafkaOutput("copies", topic=f"{NAME}-copies")],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="20 ms", max_records=10),
    checkpoint=kcontrol.Checkpoint(every="50 ms", keep=1, keep_steps=4),
    # A machine that is busy with other tests may take its time.
    limits=kcontrol.Limits(step_timeout="150 s", transaction_timeout="200 s"),
)


@pipeline.query
def copies(payments):
    return {"copies": payments.select("value")}
