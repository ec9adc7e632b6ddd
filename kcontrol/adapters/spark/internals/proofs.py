"""That a Spark has what is used of it, kept for the next start: to ask a JVM for some hundred members, class by class, takes
it a second and a half while it is cold, and the same jars answer the same.

What is kept names the jars, their sizes and times, what was looked for, and nothing else; a Spark that lacks something is
looked through each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.session import jvm
from kcontrol.settings.places import cache_home

_SHADOWING = ("spark.driver.extraClassPath", "spark.driver.userClassPathFirst")
"""Settings by which a class may come from elsewhere than from beside Spark's own jars."""


def place_of_proof(spark: SparkSession, used: Mapping[str, tuple[str, ...]]) -> Path | None:
    """The file whose being there says that the JVM behind a session has all that is `used`; None where nothing can say so,
    because its classes come from several places, or not from jars that can be looked at here."""
    if any(spark.conf.get(name, "") not in ("", "false") for name in _SHADOWING):
        return None
    jars = _jars(spark)
    if not jars:
        return None
    sought = sorted((name, *members) for name, members in used.items())
    looks = ((jar.name, jar.stat()) for jar in jars)
    files = [(name, found.st_size, int(found.st_mtime)) for name, found in looks]
    digest = hashlib.sha256(repr((str(jars[0].parent), sought, files)).encode()).hexdigest()
    return cache_home() / f"spark-{spark.version}-{digest[:16]}.proven"


def keep_proof(place: Path) -> None:
    """Say it. Where nothing can be written it is looked for again the next time."""
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _jars(spark: SparkSession) -> list[Path]:
    view = jvm(spark)
    loader = view.java.lang.Thread.currentThread().getContextClassLoader()
    source = (
        view.java.lang.Class.forName("org.apache.spark.SparkContext", False, loader)
        .getProtectionDomain()
        .getCodeSource()
    )
    jar = Path("" if source is None else source.getLocation().getPath())
    return sorted(jar.parent.glob("*.jar")) if jar.suffix == ".jar" and jar.is_file() else []
