"""PySpark's handles of the session and its JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.used import lacking

SESSION = "org.apache.spark.sql.classic.SparkSession"


def jvm(spark: SparkSession) -> Any:
    """The classes of the session's JVM, by their packages."""
    return spark.sparkContext._jvm


def jvm_class(spark: SparkSession, name: str) -> Any:
    """One of them, by its whole name. Raises SparkSettingError if there is no such class."""
    # In one question: part by part each beginning of the name would be looked for among the classes of all jars.
    found = getattr(jvm(spark), name)
    if isinstance(found, JavaPackage):  # so py4j takes what it does not know
        raise lacking([name])
    return found


def gateway_of(spark: SparkSession) -> Any:
    """Py4j's connection to the session's JVM. Its `proc` is the process of the JVM, if PySpark has started
    it."""
    return spark.sparkContext._gateway


def own_gateway() -> Any:
    """The same of this process, whether there is a session or not; None before the first."""
    return SparkContext._gateway


def use_gateway(gateway: Any) -> None:
    """Have PySpark use a JVM that was started for it."""
    SparkContext._ensure_initialized(gateway=gateway)


def active_context() -> SparkContext | None:
    """Of this process, if there is one."""
    return SparkContext._active_spark_context


def java_session(spark: SparkSession) -> Any:
    """The session as the JVM has it."""
    return spark._jsparkSession


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """This session is the calling thread's meanwhile: there Spark looks what the name of a data source stands for."""
    sessions = jvm_class(spark, SESSION)
    before = sessions.getActiveSession()
    sessions.setActiveSession(java_session(spark))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def hadoop_configuration(spark: SparkSession) -> Any:
    """What Hadoop's file systems are made with."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def set_local_properties(spark: SparkSession, properties: Mapping[str, str]) -> None:
    """For the jobs of the calling thread, in one question: `SparkContext.setLocalProperty` asks one for each."""
    if not properties:
        return
    mapper = jvm_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")()
    kind = jvm_class(spark, "java.lang.Class").forName("java.util.HashMap")
    found = mapper.readValue(json.dumps(dict(properties)), kind)
    spark.sparkContext._jsc.sc().getLocalProperties().putAll(found)


def spark_home() -> Path:
    """Where the Spark is installed that PySpark starts when nobody names another."""
    return Path(_find_spark_home())


def parsed(spark: SparkSession, statement: str) -> Any:
    """The plan of a statement as Spark's parser reads it, a LogicalPlan: no name in it was looked up yet.

    Raises what PySpark makes of a ParseException.
    """
    return java_session(spark).sessionState().sqlParser().parsePlan(statement)
