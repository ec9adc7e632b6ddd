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
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.queries import MODES, QUERIES
from bench.spark_environment import CONNECTOR

POLL_S = 0.05
DEADLINE_S = 300
KEPT_BATCHES = 10_000
"""Of which Spark's progress is asked for at the end."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap-servers", "--workload", "--source", "--sink", "--checkpoint", "--ivy"):
        parser.add_argument(name, required=True)
    for name in ("--step-records", "--steps", "--cores", "--shuffle-partitions"):
        parser.add_argument(name, type=int, required=True)
    return parser.parse_args()


def session(
    ivy: str,
    cores: int,
    shuffle_partitions: int,
    packages: Sequence[str] = (CONNECTOR,),
    more: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Local Spark as its documentation has it, with the progress of every batch kept, and `more` settings."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.jars.packages": ",".join(packages),
        "spark.jars.ivy": ivy,
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.streaming.numRecentProgressUpdates": str(KEPT_BATCHES),
        **more,
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


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
    spark = session(options.ivy, options.cores, options.shuffle_partitions)
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
