"""The list of files of a snapshot of state: how Spark reads it, once before it is needed.

Spark parses it by a library that looks through Scala's signatures of the classes that it makes: the first time that takes a
JVM more than a second. A task that opens state holds its slot meanwhile.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.session import jvm_class

_LIST = "org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata"
_TEXT = """v1
{"sstFiles":[{"localFileName":"1.sst","dfsSstFileName":"1-a.sst","sizeBytes":1}],"numKeys":1,"numInternalKeys":0,\
"columnFamilyMapping":{},"columnFamilyTypeMap":{},"maxColumnFamilyId":0}"""


def read_snapshot_list(spark: SparkSession) -> int:
    """Have the driver's JVM read such a list, of one file with one key: of use where tasks run in that JVM. How many keys there
    are by it. Raises py4j's errors, and SparkSettingError, where this Spark has other lists."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "metadata")
        made.write_text(_TEXT, encoding="utf-8")
        return int(
            jvm_class(spark, _LIST).readFromFile(jvm_class(spark, "java.io.File")(str(made))).numKeys()
        )
