"""Spark's own Kafka source and sink: runs one query for a number of micro-batches and prints
what each took, as a line of JSON; of 0 micro-batches it
runs until its standard input ends.

Runs in the environment of `spark_environment.py`, which has PySpark and nothing else of
ours. The sink is at least once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.queries import MODES, QUERIES
from bench.spark_environment import CONNECTOR

POLL_S = 0.05
DEADLINE_S = 300


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap-servers", "--workload", "--source", "--sink", "--checkpoint", "--ivy"):
        parser.add_argument(name, required=True)
    for name in ("--step-records", "--steps", "--cores", "--shuffle-partitions"):
        parser.add_argument(name, type=int, required=True)
    return parser.parse_args()


def session(options: argparse.Namespace) -> SparkSession:
    """Local Spark as its documentation has it; shuffle partitions as kcontrol uses them, progress of every
    batch kept."""
    return (
        SparkSession.builder.master(f"local[{options.cores}]")
        .appName("bench")
        .config("spark.ui.enabled", "false")
        .config("spark.jars.packages", CONNECTOR)
        .config("spark.jars.ivy", options.ivy)
        .config("spark.sql.shuffle.partitions", options.shuffle_partitions)
        .config("spark.sql.streaming.numRecentProgressUpdates", options.steps + 1_000)
        .getOrCreate()
    )


def backlog(spark: SparkSession, bootstrap_servers: str, topic: str, step_records: int) -> DataFrame:
    """All of a topic, in micro-batches of so many records."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", step_records)
        .load()
    )


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    records = backlog(spark, options.bootstrap_servers, options.source, options.step_records)
    return (
        QUERIES[options.workload](records)
        .writeStream.format("kafka")
        .outputMode(MODES[options.workload])
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("topic", options.sink)
        .option("checkpointLocation", options.checkpoint)
        .start()
    )


def batches(query: StreamingQuery) -> list[dict[str, object]]:
    """Every micro-batch that had input: its number, its records, when it started and what
    Spark's progress says it took."""
    done = [json.loads(progress.json) for progress in query.recentProgress]
    return [
        {
            "step": batch["batchId"] + 1,
            "records": batch["numInputRows"],
            "started": batch["timestamp"],
            "duration_ms": batch["durationMs"]["triggerExecution"],
        }
        for batch in done
        if batch["numInputRows"] > 0
    ]


def main() -> None:
    options = arguments()
    spark = session(options)
    spark.sparkContext.setLogLevel("ERROR")
    query = start(spark, options)
    if options.steps == 0:
        # For a stream that somebody else measures: nothing here shall take processor time meanwhile.
        sys.stdin.read()
        query.stop()
        return
    deadline = time.monotonic() + DEADLINE_S
    while query.isActive and len(batches(query)) < options.steps:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{options.steps} micro-batches took longer than {DEADLINE_S} s")
        time.sleep(POLL_S)
    failure = query.exception()
    if failure is not None:
        raise failure
    found = batches(query)
    query.stop()
    print(json.dumps(found[: options.steps]))
    spark.stop()


if __name__ == "__main__":
    main()
