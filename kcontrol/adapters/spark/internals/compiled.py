"""Java classes of kcontrol's own, compiled within the JVM by Janino, which Spark brings for the code that it generates:
kcontrol brings no jar.

What was compiled for these jars is kept in the user's cache directory, beside the archive of Spark's own classes: a JVM that
has just started needs a second and more to load the compiler.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.proofs import place_of
from kcontrol.adapters.spark.internals.session import gateway_of, jvm_class

_log = logging.getLogger(__name__)

_made: WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = WeakKeyDictionary()
"""By JVM: its classes, by their names and sources."""
_making = threading.Lock()


def compiled(spark: SparkSession, name: str, source: str) -> Any:
    """The class of that name, a java.lang.Class, once for each JVM. Raises SparkSettingError where there is no Janino, and
    Py4JJavaError for a source that is none to it."""
    with _making:
        classes = _made.setdefault(gateway_of(spark), {})
        if (name, source) not in classes:
            classes[name, source] = _found(spark, name, source)
        return classes[name, source]


def _found(spark: SparkSession, name: str, source: str) -> Any:
    place = place_of(spark, source, ".classes")
    if place is not None and _file(place, name).is_file():
        try:
            return _loaded(spark, name, place)
        except Py4JError as error:
            _log.info("%s can't be loaded from %s and is compiled anew: %s", name, place, error)
    return _compiled(spark, name, source, place)


def _loaded(spark: SparkSession, name: str, place: Path) -> Any:
    urls = gateway_of(spark).new_array(jvm_class(spark, "java.net.URL"), 1)
    urls[0] = jvm_class(spark, "java.net.URL")(f"{place.as_uri()}/")
    return jvm_class(spark, "java.net.URLClassLoader")(urls, _parent(spark)).loadClass(name)


def _compiled(spark: SparkSession, name: str, source: str, place: Path | None) -> Any:
    compiler = jvm_class(spark, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(_parent(spark))
    compiler.cook(source)
    if place is not None:
        with suppress(OSError):
            _keep(_file(place, name), bytes(compiler.getBytecodes().get(name)))
    return compiler.getClassLoader().loadClass(name)


def _parent(spark: SparkSession) -> Any:
    return jvm_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()


def _file(place: Path, name: str) -> Path:
    return place.joinpath(*name.split(".")).with_suffix(".class")


def _keep(file: Path, code: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(code)
    part.replace(file)
