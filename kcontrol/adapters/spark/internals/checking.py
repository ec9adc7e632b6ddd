"""Whether this is the Spark that kcontrol is made for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.errors import thrown_by
from kcontrol.adapters.spark.internals.proofs import keep_proof, place_of_proof
from kcontrol.adapters.spark.internals.session import jvm
from kcontrol.adapters.spark.internals.used import SPARK_VERSION, USED, USED_FOR_SHARDS, lacking
from kcontrol.errors import SparkSettingError

_METHOD = re.compile(r"([\w$]+)\(")
_MISSING = (
    # JavaClass.__getattr__ and JVMView.__getattr__: the member with its class
    re.compile(r"(?P<member>\S+) does not exist in the JVM"),
    # get_return_value, with what ReflectionEngine.java says: the member and the classes of its arguments
    re.compile(
        r"An error occurred while calling \S+ Trace:\npy4j\.Py4JException: (?P<member>\w+ .*) does not exist\n"
    ),
)


def check_version(version: str = pyspark.__version__, where: str = "PySpark") -> None:
    """Raise SparkSettingError when `version`, found `where`, is not of the line that kcontrol is made for."""
    wanted = ".".join(map(str, SPARK_VERSION))
    if version.split(".")[:2] != wanted.split("."):
        raise SparkSettingError(
            f"{where} is of version {version}; kcontrol needs {wanted}: pip install 'pyspark=={wanted}.*'"
        )


def check(spark: SparkSession, used: Mapping[str, tuple[str, ...]] | None = None) -> None:
    """Raise SparkSettingError unless the JVM behind a session is of the right version and has all that is
    `used`, by default `USED`. That these jars have it is remembered on this machine."""
    check_version(spark.version, "the Spark of this session")
    missing = _missing_unless_proven(spark, USED if used is None else used)
    if missing:
        raise lacking(missing, f" calls itself {spark.version}, but")


def lacking_for_shards(spark: SparkSession) -> list[str]:
    """What a node would need of this Spark to run some partitions of its state only; [] if it has it all, which is remembered
    as well."""
    return _missing_unless_proven(spark, USED_FOR_SHARDS)


def _missing_unless_proven(spark: SparkSession, used: Mapping[str, tuple[str, ...]]) -> list[str]:
    """That these jars have it all is remembered on this machine."""
    place = place_of_proof(spark, used)
    if place is not None and place.is_file():
        return []
    missing = _all_missing(spark, used)
    if place is not None and not missing:
        keep_proof(place)
    return missing


def _all_missing(spark: SparkSession, used: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [
        f"{name}.{member}" if member else name
        for name, members in used.items()
        for member in _missing(spark, name, members)
    ]


def lack_of(error: BaseException) -> SparkSettingError | None:
    """What is to be said if an error of py4j's is that the JVM has no such class, method
    or field; None if it is another.

    An object that the JVM has forgotten does not exist either, as py4j says it; that is no lack of this
    Spark.
    """
    if isinstance(error, TypeError) and str(error) == "'JavaPackage' object is not callable":
        return lacking(["a class that is called (py4j does not say which)"])
    found = next((match for told in _MISSING if (match := told.match(str(error)))), None)
    return None if found is None or isinstance(error, Py4JJavaError) else lacking([found["member"]])


def _missing(spark: SparkSession, name: str, members: tuple[str, ...]) -> list[str]:
    """The members that a class does not have; [''] if there is no such class."""
    view = jvm(spark)
    loader = view.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        found = view.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError as error:
        if thrown_by(error)[0].name == "java.lang.ClassNotFoundException":
            return [""]
        raise
    # A text for all methods together, because each question to the JVM takes a part of a millisecond.
    there = set(_METHOD.findall(view.scala.runtime.ScalaRunTime.stringOf(found.getMethods())))
    return [member for member in members if member not in there and not has_field(found, member)]


def has_field(owner: Any, name: str) -> bool:
    """Whether a class of the JVM, or one above it, has such a field, whoever may see it."""
    return field_of(owner, name) is not None


def field_of(owner: Any, name: str) -> Any:
    """The field of that name of a class of the JVM, or of one above it, open to all; None if there is
    none."""
    while owner is not None:
        for declared in owner.getDeclaredFields():
            if declared.getName() == name:
                declared.setAccessible(True)
                return declared
        owner = owner.getSuperclass()
    return None
