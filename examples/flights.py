"""Flights out of New York: a running aggregate of delays by carrier and origin, and the delayed flights
themselves.

Run it on a topic `flights` with `kcontrol run examples/flights.py`; `python -m examples.demo` makes the
topics, fills them, kills what runs and checks what came out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol

DELAYED_MIN = 15
"""Minutes after which a departure counts as delayed (the US Department of Transportation's rule)."""

FLIGHT = """
    carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, time_hour STRING,
    dep_delay INT, arr_delay INT, distance INT
"""

pipeline = kcontrol.Pipeline(
    "flights",
    inputs=[kcontrol.KafkaInput("flights", topic="flights", value_format="json", schema=FLIGHT)],
    outputs=[
        kcontrol.KafkaOutput("delays", topic="delays", value_format="json", key="route"),
        kcontrol.KafkaOutput("delayed", topic="delayed", value_format="json"),
    ],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="100 ms", max_records=10_000),
)


def delays_by_route(flights: DataFrame) -> DataFrame:
    """One row for each carrier and origin. Whole minutes only, so that no sum depends on its order."""
    departed = F.col("dep_delay").isNotNull()
    totals = flights.groupBy("carrier", "origin").agg(
        F.count("*").alias("flights"),
        F.count_if(~departed).alias("cancelled"),
        F.count_if(F.col("dep_delay") >= DELAYED_MIN).alias("delayed"),
        F.sum(F.greatest("dep_delay", F.lit(0))).alias("delay_min"),
        F.max("dep_delay").alias("worst_min"),
    )
    return totals.withColumn("route", F.concat_ws("-", "carrier", "origin"))


def delayed_flights(flights: DataFrame) -> DataFrame:
    """The flights that left late."""
    late = flights.where(F.col("dep_delay") >= DELAYED_MIN)
    return late.select("time_hour", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay")


@pipeline.query
def delays(flights: DataFrame) -> dict[str, object]:
    return {"delays": kcontrol.output(delays_by_route(flights), mode="update")}


@pipeline.query
def delayed(flights: DataFrame) -> DataFrame:
    return delayed_flights(flights)
