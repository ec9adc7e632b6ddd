"""Queries bound in a second session of an application, while those of the first run."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import active_session
from kcontrol.adapters.spark.query.bind import _register
from kcontrol.adapters.spark.source.data_source import SOURCE_NAME


def test_each_session_is_told_of_the_sources(spark: SparkSession) -> None:
    """Spark looks in the session of the calling thread whether a name is taken, and there the first one's are."""
    _register(spark)
    with active_session(spark):
        beside = spark.newSession()
        _register(beside)
        _register(spark)
    assert beside.read.format(SOURCE_NAME) is not None
