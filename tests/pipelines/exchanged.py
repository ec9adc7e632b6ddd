"""Nodes whose inputs are partitioned by nothing that a query groups by: rows meet by key across nodes, within each step.

Which queries there are, on how many nodes, and what it is called comes from the environment.
"""

import os

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import kcontrol

NAME = os.environ["ORDERS_PIPELINE"]
NODES = int(os.environ.get("EXCHANGED_NODES", "2"))
QUERIES = os.environ["EXCHANGED_QUERIES"].split(",")
READER = int(reader) if (reader := os.environ.get("EXCHANGED_READER")) else None
LIE = os.environ.get("EXCHANGED_LIE", "")
"""A user for whom the code is not right: amounts are one too many, and times far ahead, as the watermark is then, too."""
INPUTS = {
    "clicks": "user string, item string, amount long, ts long",
    "names": "user string, name string, ts long",
}
OUTPUTS = {
    "spent": {"key": "user"},
    "logged": {},
    "grand": {"node": NODES - 1},
    "named": {},
    "seen": {},
    "liked": {"key": "user"},
    "windows": {},
    "paired": {},
    "fresh": {},
    "expired": {"key": "user"},
    "reminded": {},
    "doubled": {},
    "summed": {"key": "user"},
    "combined": {"key": "user"},
    "closed": {},
    "sessions": {},
    "placed": {"key": "user", "partitioner": "shard"},
    "added": {},
    "bought": {"key": "item"},
    "passed": {"node": NODES - 1},
    "filed": {"node": 0, "key": "user"},
    "texts": {},
}
AS_READ = QUERIES == ["texts"]
"""Values of inputs are not looked at before they meet."""
REBALANCE = kcontrol.Rebalance(every="5 s", when=1.5, checkpoints=2, least_bytes=0)
READS = {"named": ("clicks", "names"), "paired": ("clicks", "names")}


pipeline = kcontrol.Pipeline(
    NAME,
    nodes=NODES,
    inputs=[
        kcontrol.KafkaInput(
            name,
            topic=f"{NAME}-{name}",
            value_format=None if AS_READ else "json",
            schema=None if AS_READ else schema,
            node=READER,
        )
        for name, schema in INPUTS.items()
        if any(name in READS.get(query, ("clicks",)) for query in QUERIES)
    ],
    outputs=[
        kcontrol.KafkaOutput(name, topic=f"{NAME}-{name}", value_format="json", **OUTPUTS[name])
        for name in QUERIES
    ],
    plan_once=not os.environ.get("EXCHANGED_PLAN_EACH_STEP"),
    steps=kcontrol.StepPolicy(min_records=1, max_delay="100 ms", max_records=60),
    limits=kcontrol.Limits(
        heartbeat_timeout="8 s", open_timeout="5 min", step_timeout="150 s", transaction_timeout="200 s"
    ),
    checkpoint=None
    if os.environ.get("EXCHANGED_CHECKPOINTS") == "none"
    else kcontrol.Checkpoint(
        os.environ.get("EXCHANGED_CHECKPOINTS") or None,
        keep=int(os.environ.get("EXCHANGED_KEEP", "2")),
        every=os.environ.get("EXCHANGED_EVERY", "60 s"),
    ),
    rebalance=REBALANCE if os.environ.get("EXCHANGED_REBALANCES") else None,
    layout=kcontrol.Layout(
        max_tasks=2,
        records_per_task=20,
        shuffle_partitions=int(os.environ.get("EXCHANGED_SHARDS") or (4 if "placed" in QUERIES else 3)),
    ),
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
    counted = _counted_windows(clicks)
    return {"windows": counted.select("user", F.unix_seconds("window.start").alias("start"), "n")}


def doubled(clicks):
    """Windows of windows: what a window has counted is sent when it is closed."""
    ends = _counted_windows(clicks).select(F.window_time("window").alias("ended"), "n")
    wide = kcontrol.exchange(ends, by=[F.window("ended", "20 seconds").alias("wide")])
    summed = wide.groupBy("wide").agg(F.sum("n").alias("n"))
    return {"doubled": summed.select(F.unix_seconds("wide.start").alias("start"), "n")}


def summed(clicks):
    """A running total of what windows have counted, which Spark has no plan for in one query."""
    mine = kcontrol.exchange(_counted_windows(clicks).select("user", "n"), by="user")
    return {"summed": kcontrol.output(mine.groupBy("user").agg(F.sum("n").alias("n")), mode="update")}


def paired(clicks, names):
    """Two watermarks, of which the lower one counts: a click without a name comes out when none can follow any more."""
    came = kcontrol.exchange(_timed(clicks.select("user", "amount", "ts")), by="user")
    named_at = F.timestamp_seconds("ts").alias("named_at")
    known = names.select(F.col("user").alias("who"), "name", named_at).withWatermark("named_at", "5 seconds")
    soon = F.expr("user = who AND named_at >= ts AND named_at <= ts + INTERVAL 4 SECONDS")
    both = came.join(kcontrol.exchange(known, by="who"), soon, "leftOuter")
    at, name = F.unix_seconds("ts").alias("at"), F.coalesce("name", F.lit("")).alias("name")
    return {"paired": both.select("user", "amount", at, name)}


def fresh(clicks):
    """Each user once for a time, as long as that is kept."""
    mine = kcontrol.exchange(_timed(clicks.select("user", "ts")), by=["user", "ts"])
    once = mine.dropDuplicatesWithinWatermark(["user", "ts"])
    return {"fresh": once.select("user", F.unix_seconds("ts").alias("at"))}


class Countdown(StatefulProcessor):
    """Counts a user's rows; says how many there were when a timer that the first ones have set is over."""

    def init(self, handle):
        self._handle = handle
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers):
        times = [row.at for row in rows]
        if self._count.exists():
            self._count.update((self._count.get()[0] + len(times),))
        else:
            self._count.update((len(times),))
            self._handle.registerTimer(self.due_ms(times, timers))
        return iter(())

    def handleExpiredTimer(self, key, timers, expired):
        counted = self._count.get()[0]
        self._count.clear()
        yield Row(user=key[0], n=counted, at=self.said(timers, expired))

    def close(self):
        pass


class ByEventTime(Countdown):
    def due_ms(self, times, timers):
        return (max(times) + 3) * 1_000

    def said(self, timers, expired):
        return expired.getExpiryTimeInMs() // 1_000


class ByStepTime(Countdown):
    def due_ms(self, times, timers):
        return timers.getCurrentProcessingTimeInMs() + 2_500

    def said(self, timers, expired):
        return timers.getCurrentProcessingTimeInMs()


def expired(clicks):
    """Timers of event time, which go by the watermark of all nodes."""
    mine = kcontrol.exchange(_timed(clicks.select("user", "ts", F.col("ts").alias("at"))), by="user")
    return {"expired": _with_state(mine, ByEventTime(), "EventTime")}


def reminded(clicks):
    """Timers of the time of steps."""
    mine = kcontrol.exchange(clicks.select("user", F.col("ts").alias("at")), by="user")
    return {"reminded": _with_state(mine, ByStepTime(), "ProcessingTime")}


def _with_state(rows, processor, time_mode):
    found = rows.groupBy("user").transformWithState(
        statefulProcessor=processor,
        outputStructType="user string, n long, at long",
        outputMode="Update",
        timeMode=time_mode,
    )
    return kcontrol.output(found, mode="update")


def _counted_windows(clicks):
    timed = _timed(clicks.select("user", "ts"))
    mine = kcontrol.exchange(timed, by=[F.window("ts", "10 seconds"), "user"])
    return mine.groupBy("window", "user").agg(F.count("*").alias("n"))


def _timed(rows):
    if LIE:
        rows = rows.withColumn(
            "ts", F.when(F.col("user") == LIE, F.col("ts") + 10_000).otherwise(F.col("ts"))
        )
    return rows.withColumn("ts", F.timestamp_seconds("ts")).withWatermark("ts", "5 seconds")


def combined(clicks):
    """Totals of rows that each node has brought to one a user before."""
    parts = [
        F.count("*").alias("n"),
        F.sum("amount").alias("total"),
        F.min("amount").alias("least"),
        F.max("amount").alias("most"),
    ]
    mine = kcontrol.exchange(_bought(clicks), by="user", combine=parts)
    merged = [F.sum("n").alias("n"), F.sum("total").alias("total")]
    extremes = [F.min("least").alias("least"), F.max("most").alias("most")]
    return {"combined": kcontrol.output(mine.groupBy("user").agg(*merged, *extremes), mode="update")}


def closed(clicks):
    """`windows`, of rows that each node has brought to one a window and user before."""
    timed = clicks.select("user", F.timestamp_seconds("ts").alias("ts")).withWatermark("ts", "5 seconds")
    by = [F.window("ts", "10 seconds"), "user"]
    mine = kcontrol.exchange(timed, by=by, combine=F.count("*").alias("n"))
    counted = mine.groupBy("window", "user").agg(F.sum("n").alias("n"))
    return {"closed": counted.select("user", F.unix_seconds("window.start").alias("start"), "n")}


def sessions(clicks):
    """Sessions of a user, which are no part of what rows are exchanged by."""
    timed = clicks.select("user", F.timestamp_seconds("ts").alias("ts")).withWatermark("ts", "5 seconds")
    mine = kcontrol.exchange(timed, by="user")
    counted = mine.groupBy(F.session_window("ts", "3 seconds"), "user").agg(F.count("*").alias("n"))
    window = F.col("session_window")
    ends = [F.unix_seconds(window[name]).alias(name) for name in ("start", "end")]
    return {"sessions": counted.select("user", *ends, "n")}


def placed(clicks):
    """Totals that stay on the nodes that make them."""
    return {"placed": kcontrol.output(totals(kcontrol.exchange(_bought(clicks), by="user")), mode="update")}


def added(clicks):
    """Totals and, of the same exchanged rows, what each user has bought how often: two queries read them."""
    mine = kcontrol.exchange(clicks.select("user", "item", "amount"), by="user")
    once = kcontrol.exchange(mine.select("item"), by="item")
    bought = once.groupBy("item").agg(F.count("*").alias("n"))
    return {
        "added": kcontrol.output(totals(mine), mode="update"),
        "bought": kcontrol.output(bought, mode="update"),
    }


def passed(clicks):
    """Rows as they were read by any node, into a topic of one partition."""
    return {"passed": clicks.select("user", "amount")}


def filed(clicks):
    """Rows with keys, into a topic of fewer partitions than nodes."""
    return {"filed": clicks.select("user", "item")}


def texts(clicks):
    """How often a value was read: values are sent as they are."""
    mine = kcontrol.exchange(clicks.select("value"), by="value")
    counted = mine.groupBy("value").agg(F.count("*").alias("n"))
    return {
        "texts": kcontrol.output(
            counted.select(F.col("value").cast("string").alias("text"), "n"), mode="update"
        )
    }


def _bought(clicks):
    if LIE:
        clicks = clicks.withColumn(
            "amount", F.when(F.col("user") == LIE, F.col("amount") + 1).otherwise(F.col("amount"))
        )
    return clicks.select("user", "amount")


for query in QUERIES:
    if query in globals():
        pipeline.query(globals()[query])
