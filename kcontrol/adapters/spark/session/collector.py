"""Which garbage collector the driver's JVM runs with: the parallel one, unless somebody has chosen.

Java's own choice, G1, works beside the program to keep its pauses short, and makes every write of a reference
dearer. On a node, whose processors are full with Spark, Python and often a broker, a step waits for all that;
pauses of a heap of Spark's size it hardly notices. Java refuses to start with two collectors, so a choice is
looked for wherever one can be made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kcontrol.adapters.spark.internals import spark_home

PARALLEL = "-XX:+UseParallelGC -XX:MetaspaceSize=128m"
"""With room for Spark's classes, for which the whole heap is collected else: as soon as 20 MB of them are there, and
again until they fit."""
_COLLECTOR = re.compile(r"-XX:[+-]Use\w*GC\b")
VARIABLES = (
    "JDK_JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
    "PYSPARK_SUBMIT_ARGS",
    "JAVA_OPTS",
)
"""Of the environment: where options of the driver's JVM can be."""


def collector_option(settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> str:
    """The options for the JVM that is about to start; '' when its user has chosen a collector.

    settings: of Spark, by name. environment: of this process, unless given;
    spark-defaults.conf is found by it as Spark does.
    """
    variables = os.environ if environment is None else environment
    said = (*settings.values(), *(variables.get(name, "") for name in VARIABLES), spark_defaults(variables))
    return "" if any(_COLLECTOR.search(text) for text in said) else PARALLEL


def spark_defaults(environment: Mapping[str, str]) -> str:
    """The text of spark-defaults.conf, found as Spark does; '' if there is none."""
    file = spark_conf_dir(environment) / "spark-defaults.conf"
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def spark_conf_dir(environment: Mapping[str, str]) -> Path:
    """Where Spark looks for its configuration; it need not be there."""
    return Path(
        environment.get("SPARK_CONF_DIR") or Path(environment.get("SPARK_HOME") or spark_home()) / "conf"
    )
