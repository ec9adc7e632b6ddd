"""Which Spark kcontrol works with: one sentence at the start, instead of an error from deep within."""

from __future__ import annotations

import pyspark

from kcontrol.errors import SparkSettingError

SPARK_VERSION = (4, 3)
"""Its planner, state store and Python data sources are used in ways that may change with the next."""


def check_spark(version: str = pyspark.__version__, where: str = "PySpark") -> None:
    """Raise SparkSettingError when `version`, found `where`, is not of the line that kcontrol is made for."""
    numbers = tuple(part for part in version.split(".")[:2])
    if numbers != tuple(map(str, SPARK_VERSION)):
        wanted = ".".join(map(str, SPARK_VERSION))
        raise SparkSettingError(f"{where} is of version {version}; kcontrol needs {wanted}: pip install 'pyspark=={wanted}.*'")
