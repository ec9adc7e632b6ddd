"""Makes data sources that are written in Python known to a session."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from kcontrol.adapters.spark.internals import active_session

_SET_BY_SPARK = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")
"""What Spark's PythonStreamingSourceRunner puts into the environment of a data source's function when a query
starts."""


def register(spark: SparkSession, *sources: type[DataSource]) -> None:
    """Make them known to this session, again if they are.

    All queries share the one java.util.HashMap that holds its environment: a query that starts puts keys into
    it while another query's tasks are being serialized, which then fail with `OptionalDataException` now and
    again. A put of a key that is there already changes nothing else in a HashMap, so they are there from the
    start.
    """
    environment = spark.sparkContext.environment
    placed = [key for key in _SET_BY_SPARK if environment.setdefault(key, "") == ""]
    try:
        with active_session(spark):
            for source in sources:
                spark.dataSource.register(source)
    finally:
        for key in placed:
            del environment[key]
