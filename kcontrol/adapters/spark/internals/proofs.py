"""What is true of a Spark for as long as its jars are the same, kept for the next start: that it has what is used of it, and
classes that were compiled for it. To ask a JVM for some hundred members, class by class, takes it a second and a half while it
is cold, and so does loading a compiler.

What is kept is named after the jars, their sizes and times, and what it is about; a Spark that lacks something is
looked through each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.session import gateway_of, jvm_class
from kcontrol.settings.places import cache_home

_SHADOWING = ("spark.driver.extraClassPath", "spark.driver.userClassPathFirst")
"""Settings by which a class may come from elsewhere than from beside Spark's own jars."""
_jars: WeakKeyDictionary[Any, list[Path]] = WeakKeyDictionary()
"""By JVM."""


def place_of_proof(spark: SparkSession, used: Mapping[str, tuple[str, ...]]) -> Path | None:
    """The file whose being there says that the JVM behind a session has all that is `used`; None as `place_of`."""
    return place_of(spark, repr(sorted((name, *members) for name, members in used.items())), ".proven")


def place_of(spark: SparkSession, what: str, suffix: str) -> Path | None:
    """Where is kept what follows from the Spark behind a session and `what`; None where nothing can be kept, because its
    classes come from several places, or not from jars that can be looked at here."""
    if any(spark.conf.get(name, "") not in ("", "false") for name in _SHADOWING):
        return None
    jars = _jars_of(spark)
    if not jars:
        return None
    looks = ((jar.name, jar.stat()) for jar in jars)
    files = [(name, found.st_size, int(found.st_mtime)) for name, found in looks]
    digest = hashlib.sha256(repr((str(jars[0].parent), what, files)).encode()).hexdigest()
    return cache_home() / f"spark-{spark.version}-{digest[:16]}{suffix}"


def keep_proof(place: Path) -> None:
    """Say it. Where nothing can be written it is looked for again the next time."""
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _jars_of(spark: SparkSession) -> list[Path]:
    gateway = gateway_of(spark)
    if gateway not in _jars:
        _jars[gateway] = _found_jars(spark)
    return _jars[gateway]


def _found_jars(spark: SparkSession) -> list[Path]:
    loader = jvm_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    found = jvm_class(spark, "java.lang.Class").forName("org.apache.spark.SparkContext", False, loader)
    source = found.getProtectionDomain().getCodeSource()
    jar = Path("" if source is None else source.getLocation().getPath())
    return sorted(jar.parent.glob("*.jar")) if jar.suffix == ".jar" and jar.is_file() else []
