"""Spark's own file source and Kafka sink: runs one query, a file to a micro-batch, and prints what each took, as a line of
JSON.

Runs in the environment of `bench/spark_environment.py`. The sink is at least once.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.files.work import SCHEMA, work
from bench.spark_app import batches, session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap-servers", "--directory", "--sink", "--checkpoint", "--ivy"):
        parser.add_argument(name, required=True)
    parser.add_argument("--cores", type=int, required=True)
    options = parser.parse_args()
    # As many tasks to a file as there are cores, as kcontrol has.
    more = {"spark.sql.files.maxPartitionBytes": "32m"}
    spark = session(options.ivy, options.cores, options.cores, more=more)
    lines = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(options.directory)
    query = (
        work(lines)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("topic", options.sink)
        .option("checkpointLocation", options.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(json.dumps(batches(query)))
    spark.stop()


if __name__ == "__main__":
    main()
