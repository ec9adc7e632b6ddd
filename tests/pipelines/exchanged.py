"""Nodes whose inputs are partitioned by nothing that a query groups by: rows meet by key across nodes, within each step.

Which queries there are, on how many nodes, and what it is called comes from the environment.
"""

import os

from pyspark.sql import functions as F

import kcontrol

NAME = os.environ["ORDERS_PIPELINE"]
QUERIES = os.environ["EXCHANGED_QUERIES"].split(",")
INPUTS = {"clicks": "user string, item string, amount long, ts long", "names": "user string, name string"}
OUTPUTS = {
    "spent": {"key": "user"},
    "logged": {},
    "grand": {"node": 1},
    "named": {},
    "seen": {},
    "liked": {"key": "user"},
    "windows": {},
}
READS = {"named": ("clicks", "names")}


pipeline = kcontrol.Pipeline(
    NAME,
    nodes=int(os.environ.get("EXCHANGED_NODES", "2")),
    inputs=[
        kcontrol.KafkaInput(name, topic=f"{NAME}-{name}", value_format="json", schema=schema)
        for name, schema in INPUTS.items()
        if any(name in READS.get(query, ("clicks",)) for query in QUERIES)
    ],
    outputs=[
        kcontrol.KafkaOutput(name, topic=f"{NAME}-{name}", value_format="json", **OUTPUTS[name])
        for name in QUERIES
    ],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="100 ms", max_records=60),
    limits=kcontrol.Limits(heartbeat_timeout="8 s", step_timeout="150 s", transaction_timeout="200 s"),
    layout=kcontrol.Layout(max_tasks=2, records_per_task=20, shuffle_partitions=3),
)


def totals(rows):
    return rows.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


def spent(clicks):
    """A running total by user, in the partition of the user."""
    return {"spent": kcontrol.output(totals(kcontrol.exchange(_bought(clicks), by="user")), mode="update")}


def logged(clicks):
    """The same, in whatever partition."""
    return {"logged": kcontrol.output(totals(kcontrol.exchange(_bought(clicks), by="user")), mode="update")}


def grand(clicks):
    """A total over all, into a topic of one partition."""
    rows = kcontrol.exchange(clicks.select("amount"), by=[])
    total = rows.agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    return {"grand": kcontrol.output(total, mode="update")}


def named(clicks, names):
    """Two inputs that are exchanged, and joined without a watermark."""
    bought = kcontrol.exchange(_bought(clicks), by="user")
    known = kcontrol.exchange(names.select("user", "name"), by="user")
    return {"named": bought.join(known, "user").select("user", "amount", "name")}


def seen(clicks):
    """Each item once."""
    return {"seen": kcontrol.exchange(clicks.select("item"), by="item").dropDuplicates(["item"])}


def liked(clicks):
    """Two exchanges in a row: how many different items each user has bought."""
    pairs = kcontrol.exchange(clicks.select("user", "item"), by=["user", "item"])
    once = pairs.dropDuplicates(["user", "item"])
    counted = kcontrol.exchange(once, by="user").groupBy("user").agg(F.count("*").alias("n"))
    return {"liked": kcontrol.output(counted, mode="update")}


def windows(clicks):
    """Windows that close when a watermark of all nodes together has passed them."""
    timed = clicks.select("user", F.timestamp_seconds("ts").alias("ts")).withWatermark("ts", "5 seconds")
    mine = kcontrol.exchange(timed, by=[F.window("ts", "10 seconds"), "user"])
    counted = mine.groupBy("window", "user").agg(F.count("*").alias("n"))
    return {"windows": counted.select("user", F.unix_seconds("window.start").alias("start"), "n")}


def _bought(clicks):
    return clicks.select("user", "amount")


for query in QUERIES:
    pipeline.query(globals()[query])
