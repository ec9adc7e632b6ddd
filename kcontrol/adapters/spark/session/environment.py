"""What this driver runs with, asked of the processes themselves."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import jvm
from kcontrol.core.model import Environment


def environment_of(spark: SparkSession) -> Environment:
    """Of the driver. Executors on other machines are taken to be like it, as Spark itself takes them."""
    system = jvm(spark).java.lang.System
    java = [str(system.getProperty(name) or "") for name in ("java.version", "java.vendor")]
    return Environment(
        machine=platform.machine(),
        kcontrol=_version("kcontrol"),
        python=platform.python_version(),
        spark=spark.version,
        java=" ".join(filter(None, java)),
        pyarrow=_version("pyarrow"),
        pandas=_version("pandas"),
        numpy=_version("numpy"),
        protobuf=_version("protobuf"),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
