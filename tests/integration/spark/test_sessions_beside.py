"""Queries bound in a second session of an application, while those of the first run."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import active_session
from kcontrol.adapters.spark.source.data_source import SOURCE_NAME, KcontrolSource
from kcontrol.adapters.spark.source.registering import register


def test_each_session_is_told_of_the_sources(spark: SparkSession) -> None:
    """Spark looks in the session of the calling thread whether a name is taken, and there the first one's are."""
    register(spark, KcontrolSource)
    with active_session(spark):
        beside = spark.newSession()
        register(beside, KcontrolSource)
        register(spark, KcontrolSource)
    assert beside.read.format(SOURCE_NAME) is not None
