"""What Spark writes to the local disk, without a second file of checksums beside each, without a process that sets
rights, and without a second copy of the tables of state.

Hadoop's local file system writes such a file, and sets the rights of both. Nothing
relies on these files: RocksDB and its compressed changelogs have checksums of their own, a kcontrol
checkpoint has its digests, and what Spark's logs say of a step is compared with the steps topic.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import link_tables, local_file_system, set_rights_without_processes


def write_lean_files(spark: SparkSession) -> None:
    """For all that this JVM writes to the local disk from now on. Files that have
    checksums are still checked when read."""
    local = local_file_system(spark)
    local.setWriteChecksum(False)
    set_rights_without_processes(spark, local)
    link_tables(spark, local)
