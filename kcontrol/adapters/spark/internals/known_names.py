"""Names of Java's classes that PySpark asks for again and again, answered here.

py4j asks the JVM what each beginning of a name stands for, every time: whether there is a class `py4j` among those of all jars,
then `py4j.reflection`, then the class. A node's start does so five hundred times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage

BY_WHOLE_NAME = (
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
    "org.apache.spark.util.Utils",
    "java.net.URLClassLoader",
)
IMPORTED = {
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    "PythonSQLUtils": "org.apache.spark.sql.api.python.PythonSQLUtils",
    "SimplePythonFunction": "org.apache.spark.api.python.SimplePythonFunction",
    "functions": "org.apache.spark.sql.functions",
}
"""By the short name that PySpark imports it by."""
PART_BY_PART = (
    "py4j.reflection.TypeUtil",
    "java.util.ArrayList",
    "java.util.HashMap",
    "scala.jdk.javaapi.CollectionConverters",
)
"""Asked for package by package."""


def know_names(gateway: Any) -> None:
    """Of this connection's view of the JVM. A name that is not among these is asked for as ever, and so is a class of a package
    of which others are known."""
    view, client = gateway.jvm, gateway._gateway_client
    for name, whole in (*((name, name) for name in BY_WHOLE_NAME), *IMPORTED.items()):
        setattr(view, name, JavaClass(whole, client))
    _know_parts(view, client, PART_BY_PART)


def _know_parts(view: Any, client: Any, names: Iterable[str]) -> None:
    for name in names:
        at, so_far = view, ""
        *packages, last = name.split(".")
        for part in packages:
            so_far = f"{so_far}.{part}" if so_far else part
            if part not in vars(at):
                setattr(at, part, JavaPackage(so_far, client, view._id))
            at = vars(at)[part]
        setattr(at, last, JavaClass(name, client))
