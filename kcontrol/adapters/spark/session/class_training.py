"""`python -m kcontrol.adapters.spark.session.class_training FILE`: loads the classes that a
node needs, archives them in FILE.

A stream, an aggregate with RocksDB, a shuffle, Arrow to Python and back, `foreachBatch`: what steps are made
of. The source is one of Spark's own, because one in Python must start within ten seconds, which a busy
machine may not manage.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kcontrol.adapters.spark.internals import own_gateway
from kcontrol.adapters.spark.session.build import JVM_OPTIONS, session
from kcontrol.adapters.spark.session.class_archive import training_options
from kcontrol.adapters.spark.session.collector import collector_option

STEPS = 3
_TIMEOUT_S = 120


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a writer task does, as far as the JVM can tell."""
    yield from batches


def train(archive: Path) -> None:
    """Run a few steps, then end the JVM, which writes the archive."""
    spark = session(
        "kcontrol-training", "local[2]", {JVM_OPTIONS: f"{training_options(archive)} {collector_option({})}"}
    )
    gateway = own_gateway()
    assert gateway is not None
    records = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    totals = records.groupBy((sf.col("value") % 3).alias("key")).agg(
        sf.count("*").alias("n"), sf.sum("value").alias("total")
    )
    done: list[int] = []

    def sink(batch: DataFrame, number: int) -> None:
        batch.coalesce(1).mapInArrow(same, batch.schema).collect()
        batch.repartitionById(2, sf.lit(0)).collect()
        done.append(number)

    with tempfile.TemporaryDirectory() as scratch:
        query = (
            totals.writeStream.outputMode("update")
            .option("checkpointLocation", scratch)
            .foreachBatch(sink)
            .start()
        )
        while len(done) < STEPS and not query.awaitTermination(1):
            pass
        query.stop()
    if len(done) < STEPS:
        raise SystemExit(f"the query ended after {len(done)} steps: {query.exception()}")
    spark.stop()
    gateway.shutdown()
    # The JVM ends when its standard input does, and writes the archive first.
    gateway.proc.stdin.close()
    gateway.proc.wait(_TIMEOUT_S)


if __name__ == "__main__":
    train(Path(sys.argv[1]))
