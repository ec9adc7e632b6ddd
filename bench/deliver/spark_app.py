"""Structured streaming from a topic into a table with foreachBatch, exactly once: reads the whole backlog, and prints what each
micro-batch had, as a line of JSON.

PostgreSQL: Spark's own JDBC writer commits each partition for itself, so it is at least once. Exactly once is one transaction
of the driver, with the number of the batch, which is compared first. Spark reads and parses in a task for each core,
the driver gets the batch in Arrow's format (`toArrow`), makes CSV of it in C++ (pyarrow) and gives that to COPY: no row becomes
an object of Python on its way, and PostgreSQL knows nothing quicker than COPY. Writers in Spark's tasks would need a table for
what they have written side by side and a transaction that brings it over, so that each row is written twice. For an upsert COPY
goes into a temporary table, and PostgreSQL takes the newest row of each key from there: a window in Spark would be a shuffle.

Delta Lake: Spark's own writer (delta-spark) with `txnAppId` and `txnVersion`, by which a batch that comes again is passed over.
Its own sink (`writeStream.format("delta")`) makes the same commits; foreachBatch costs one call of Python a batch more.

Runs in the environment of `bench/spark_environment.py`, with the packages of `requirements-spark.lock`.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.deliver.columns import BATCHES, KEY, NAMES, SCHEMA, TABLE, UPSERT
from bench.spark_app import backlog, batches, session
from bench.spark_environment import CONNECTOR

DELTA = "io.delta:delta-spark_2.13:4.0.0"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""The table's state is read by 50 tasks besides, which is for a cluster: `main` has it read by a task for each core."""
QUERY = "bench"
_COLUMNS = ", ".join(NAMES)
_CONFLICT = ", ".join(f"{name} = excluded.{name}" for name in NAMES if name != KEY)
_MERGE = (
    f"INSERT INTO {TABLE} ({_COLUMNS}) SELECT DISTINCT ON ({KEY}) {_COLUMNS} FROM staged ORDER BY {KEY}, number DESC "
    f"ON CONFLICT ({KEY}) DO UPDATE SET {_CONFLICT}"
)

Write = Callable[[DataFrame, int], None]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap-servers", "source", "target", "mode", "to", "checkpoint", "ivy"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("step-rows", "cores"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def to_postgres(url: str, mode: str) -> Write:
    """Each batch in one transaction with its number. The password is in the environment."""
    import psycopg
    from pyarrow import csv

    database = psycopg.connect(url, autocommit=True)
    database.execute(f"INSERT INTO {BATCHES} VALUES (%s, -1) ON CONFLICT DO NOTHING", (QUERY,))
    into = "staged" if mode == UPSERT else TABLE
    if mode == UPSERT:
        database.execute(f"CREATE TEMPORARY TABLE staged (LIKE {TABLE}) ON COMMIT DELETE ROWS")
    plain = csv.WriteOptions(include_header=False)

    def write(batch: DataFrame, number: int) -> None:
        with database.transaction(), database.cursor() as cursor:
            cursor.execute(f"SELECT batch FROM {BATCHES} WHERE query = %s FOR UPDATE", (QUERY,))
            found = cursor.fetchone()
            if found is None or found[0] >= number:
                return
            text = io.BytesIO()
            csv.write_csv(batch.toArrow(), text, plain)
            with cursor.copy(f"COPY {into} ({_COLUMNS}) FROM STDIN (FORMAT csv)") as copy:
                copy.write(text.getbuffer())
            if mode == UPSERT:
                cursor.execute(_MERGE)
            cursor.execute(f"UPDATE {BATCHES} SET batch = %s WHERE query = %s", (number, QUERY))

    return write


def to_delta(url: str) -> Write:
    """Each batch as one commit with its number."""
    path = url.removeprefix("delta://")

    def write(batch: DataFrame, number: int) -> None:
        delta = batch.write.format("delta").mode("append")
        delta.option("txnAppId", QUERY).option("txnVersion", number).save(path)

    return write


def main() -> None:
    options = arguments()
    if options.target == "delta":
        delta = {**DELTA_SETTINGS, "spark.databricks.delta.snapshotPartitions": str(options.cores)}
        spark = session(options.ivy, options.cores, options.cores, (CONNECTOR, DELTA), delta)
    else:
        spark = session(options.ivy, options.cores, options.cores)
    records = backlog(spark, options.bootstrap_servers, options.source, options.step_rows)
    rows = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
    write = to_delta(options.to) if options.target == "delta" else to_postgres(options.to, options.mode)
    query = (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", options.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(json.dumps(batches(query)))
    spark.stop()


if __name__ == "__main__":
    main()
