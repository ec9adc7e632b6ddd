"""What plain Spark says of the same flights: one batch over the file, no Kafka, no
steps, nothing of kcontrol at work.

`python -m examples.plain_spark FLIGHTS TARGET` writes the rows as JSON lines into
TARGET/delays and TARGET/delayed.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from examples.flights import FLIGHT, delayed_flights, delays_by_route


def main() -> None:
    flights_file, target = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("plain")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    flights = spark.read.schema(FLIGHT).json(flights_file).cache()
    delays_by_route(flights).write.json(f"{target}/delays")
    delayed_flights(flights).write.json(f"{target}/delayed")
    spark.stop()


if __name__ == "__main__":
    main()
