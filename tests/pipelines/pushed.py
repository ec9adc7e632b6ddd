"""Every order as it came: what the tests of pushed rows run."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

import kcontrol

NAME = os.environ["PUSHED_PIPELINE"]

pipeline = kcontrol.Pipeline(
    NAME,
    inputs=[
        kcontrol.KafkaInput(
            "orders", topic=f"{NAME}-orders", value_format="json", schema="customer STRING, amount INT"
        )
    ],
    outputs=[kcontrol.KafkaOutput("copies", topic=f"{NAME}-copies", value_format="json")],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="100 ms", max_records=200),
    # Long, because a machine that stands still for minutes is no fault of a node.
    limits=kcontrol.Limits(
        open_timeout="10 min", step_timeout="5 min", transaction_timeout="6 min", silence_timeout="10 min"
    ),
)


@pipeline.query
def copies(orders: DataFrame) -> dict[str, DataFrame]:
    """Each row."""
    return {"copies": orders.select("customer", "amount")}
