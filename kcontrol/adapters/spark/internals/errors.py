"""Exceptions of the JVM, as they describe themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

from kcontrol.adapters.spark.internals.session import own_gateway

_MAX_CAUSES = 32


@dataclass(frozen=True, slots=True)
class Thrown:
    """An exception of the JVM, as it describes itself."""

    name: str
    """Of its class, with its package."""
    message: str
    condition: str = ""
    """Spark's name for what is wrong; '' if it has none, or is not Spark's."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What the condition's message is made of."""


def thrown_by(error: BaseException) -> tuple[Thrown, ...]:
    """The exception of the JVM behind an error of PySpark's or py4j's, and its causes after
    it; none if it began in Python.

    Asks the JVM. Raises Py4JError or OSError if that has ended.
    """
    first = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    return tuple(_described(each) for each in islice(_causes(first), _MAX_CAUSES))


def _causes(thrown: Any) -> Iterator[Any]:
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def _described(thrown: Any) -> Thrown:
    gateway = own_gateway()
    name, message = thrown.getClass().getName(), thrown.getMessage() or ""
    if not is_instance_of(gateway, thrown, "org.apache.spark.SparkThrowable"):
        return Thrown(name, message)
    told = gateway.jvm.org.apache.spark.api.python.PythonErrorUtils
    return Thrown(name, message, told.getCondition(thrown) or "", dict(told.getMessageParameters(thrown)))
