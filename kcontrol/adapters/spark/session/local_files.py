"""What Spark writes to the local disk, without a second file of checksums beside each.

Hadoop's local file system writes one, and sets the rights of both. Without Hadoop's native library, which
Spark does not bring, each time a process is started for that, `chmod`, which a small step waits for. Nothing
relies on these files: RocksDB and its compressed changelogs have checksums of their own, a kcontrol
checkpoint has its digests, and what Spark's logs say of a step is compared with the steps topic.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import hadoop_configuration, jvm


def leave_out_checksum_files(spark: SparkSession) -> None:
    """For all that this JVM writes to the local disk from now on. Files that have
    checksums are still checked when read."""
    view = jvm(spark)
    local = view.java.net.URI("file:///")
    view.org.apache.hadoop.fs.FileSystem.get(local, hadoop_configuration(spark)).setWriteChecksum(False)
