"""Builds a SparkSession that kcontrol can work with: every setting of `conf`, and the
interpreter of this process for tasks."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from kcontrol.adapters.java import Java, find_java
from kcontrol.adapters.spark.internals import check, check_version, jvm_class, know_names, own_gateway
from kcontrol.adapters.spark.session.class_archive import start_options
from kcontrol.adapters.spark.session.collector import collector_option, spark_defaults
from kcontrol.adapters.spark.session.compilers import (
    compiler_niceness,
    compilers_option,
    giving_way_from_the_start,
    let_compilers_give_way,
)
from kcontrol.adapters.spark.session.conf import SETTINGS, Need, check_master
from kcontrol.adapters.spark.session.fork_server.process import TIMEZONE
from kcontrol.adapters.spark.session.fork_server.starting import forks
from kcontrol.adapters.spark.session.jvm_words import launch_hushed, logging_option
from kcontrol.adapters.spark.session.native_library import native_library_kept_apart
from kcontrol.errors import SparkSettingError

LOCAL = "local[*]"
JVM_OPTIONS = "spark.driver.defaultJavaOptions"
"""Spark's setting for options of the driver's JVM that come before those of the user."""
_REPEATING = (
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.api.python.PythonRunner",
)
"""Loggers of Spark that log what ends a query. With --debug they do."""
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def session(
    app_name: str = "kcontrol",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
    hushed: bool = False,
    launched: Callable[[Any], object] | None = None,
) -> SparkSession:
    """Make (or get) the Spark session of this process with everything set that kcontrol needs.

    master: Spark's master URL; by default what spark-submit gave, else `local[*]`.
    settings: more Spark settings; they win over kcontrol's where those only concern speed.
    hushed: what Java and PySpark's daemons say on standard error is handed on without their noise: for
    kcontrol's commands. launched: called with the gateway of the JVM as soon as that has started, if it is hushed.

    Raises SparkSettingError when `settings` or `master` contradict what correctness needs, or for another PySpark than 4.3;
    JavaError without a Java that Spark runs on.
    """
    check_version()
    extra = dict(settings or {})
    _refuse_contradictions(extra)
    niceness = compiler_niceness(extra)
    java = find_java()
    _set_environment()
    builder = SparkSession.Builder().appName(app_name)
    master = which_master(master)
    if master is not None:
        check_master(master)
        builder = builder.master(master)
    values = {
        **_jvm_options(java, extra, niceness),
        **_QUIET,
        **{setting.name: setting.value for setting in SETTINGS},
        **extra,
    }
    for name, value in values.items():
        builder = builder.config(name, value)
    with (
        forks.forking(values.get("spark.master", master)),
        giving_way_from_the_start(niceness),
        native_library_kept_apart(),
    ):
        if hushed and not logging.getLogger("kcontrol").isEnabledFor(logging.DEBUG):
            launch_hushed(
                {"spark.app.name": app_name, **({"spark.master": master} if master else {}), **values}
            )
        gateway = own_gateway()
        let_compilers_give_way(gateway, niceness)
        if gateway is not None:
            know_names(gateway)
            if launched is not None:
                launched(gateway)
        spark = builder.getOrCreate()
    let_compilers_give_way(own_gateway(), niceness)
    check(spark)
    spark.sparkContext.setLogLevel(log_level)
    if not logging.getLogger("kcontrol").isEnabledFor(logging.DEBUG):
        _silence(spark)
    return spark


def begin_forking(master: str | None) -> None:
    """Have what Python processes are forked from ready by the time that the session of this master is made."""
    _set_environment()
    forks.begin(which_master(master))


def _set_environment() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault(TIMEZONE, "1")


def which_master(master: str | None) -> str | None:
    """The master URL of the session for which nobody, or somebody, names one; None where Spark decides."""
    if master is None and "MASTER" not in os.environ and "SPARK_ENV_LOADED" not in os.environ:
        return LOCAL
    return master


def _silence(spark: SparkSession) -> None:
    """Of a query's failure kcontrol says the cause, once; Spark would log the same stack trace in each of its
    layers."""
    off = jvm_class(spark, "org.apache.logging.log4j.Level").OFF
    configurator = jvm_class(spark, "org.apache.logging.log4j.core.config.Configurator")
    for name in _REPEATING:
        configurator.setLevel(name, off)


def _jvm_options(java: Java, settings: Mapping[str, str], niceness: int) -> dict[str, str]:
    """For a JVM that is about to start; none where its user has set some in the same place."""
    quiet = "" if logging.getLogger("kcontrol").isEnabledFor(logging.DEBUG) else logging_option(settings)
    chosen = (start_options(java), collector_option(settings), compilers_option(niceness), quiet)
    options = " ".join(filter(None, chosen))
    return {JVM_OPTIONS: options} if options and JVM_OPTIONS not in spark_defaults(os.environ) else {}


def _refuse_contradictions(extra: Mapping[str, str]) -> None:
    for setting in SETTINGS:
        found = extra.get(setting.name, setting.value)
        if setting.need is not Need.SPEED and found.lower() != setting.value.lower():
            raise SparkSettingError(
                f"Spark setting {setting.name} is {found!r} but must be {setting.value!r}, or "
                f"{setting.why}; leave it out"
            )
