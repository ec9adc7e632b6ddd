"""Spark's own Kafka connector in an environment of its own, because the newest connector is a
version behind kcontrol's Spark.

The connector is resolved by its Maven coordinates with the resolver that Spark brings
(`spark.jars.packages`), into the same directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.environments import made_of

LOCK = Path(__file__).with_name("requirements-spark.lock")
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


@dataclass(frozen=True)
class SparkEnvironment:
    """A Python that has PySpark as the lock says, and where its resolver keeps the connector's jars."""

    python: Path
    ivy: Path


def prepare(lock: Path = LOCK, name: str = "spark") -> SparkEnvironment:
    """Make the environment unless the one there is complete and of this lock. Raises
    CalledProcessError with pip's output."""
    root = made_of(lock, name)
    return SparkEnvironment(root / "bin" / "python", root / "ivy")
