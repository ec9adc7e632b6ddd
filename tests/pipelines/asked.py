"""Two nodes, each with the customers of its own partitions: totals of all orders, and who has ordered at all.

What it is called comes from the environment. Its state is saved beside the nodes' working directories, when asked for.
"""

import os

from pyspark.sql import functions as F

import kcontrol

NAME = os.environ["ASKED_PIPELINE"]

pipeline = kcontrol.Pipeline(
    NAME,
    nodes=2,
    inputs=[
        kcontrol.KafkaInput(
            "orders",
            topic=f"{NAME}-orders",
            value_format="json",
            schema="customer STRING, amount BIGINT",
            partitioned_by="customer",
        )
    ],
    outputs=[
        kcontrol.KafkaOutput("totals", topic=f"{NAME}-totals", key="customer", value_format="json"),
        kcontrol.KafkaOutput("firsts", topic=f"{NAME}-firsts", key="customer", value_format="json"),
    ],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="50 ms", max_records=100),
    checkpoint=kcontrol.Checkpoint(every="1 h", keep=10),
    limits=kcontrol.Limits(heartbeat_timeout="5 s", step_timeout="150 s", transaction_timeout="200 s"),
)


@pipeline.query
def totals(orders):
    summed = orders.groupBy("customer").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    return {"totals": kcontrol.output(summed, mode="update")}


@pipeline.query
def firsts(orders):
    return {"firsts": orders.select("customer").dropDuplicates(["customer"])}
