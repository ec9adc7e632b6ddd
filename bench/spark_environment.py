"""Spark's own Kafka connector in an environment of its own, because the newest connector is a
version behind kcontrol's Spark.

The environment is made once under the user's cache directory from `requirements-spark.lock`, and anew when
that file changes. The connector is resolved by its Maven coordinates with the resolver that Spark brings
(`spark.jars.packages`), into the same directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LOCK = Path(__file__).with_name("requirements-spark.lock")
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
INSTALL_TIMEOUT_S = 900


@dataclass(frozen=True)
class SparkEnvironment:
    """A Python that has PySpark as the lock says, and where its resolver keeps the connector's jars."""

    python: Path
    ivy: Path


def cache_directory() -> Path:
    """The user's cache directory for the bench (XDG base directories)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kcontrol" / "bench"


def prepare() -> SparkEnvironment:
    """Make the environment unless the one there is complete and of this lock. Raises
    CalledProcessError with pip's output."""
    lock_sha256 = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    root = cache_directory() / f"spark-{lock_sha256[:12]}"
    environment = SparkEnvironment(root / "bin" / "python", root / "ivy")
    complete = root / "complete"
    if complete.exists():
        return environment
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True, timeout=INSTALL_TIMEOUT_S)
    pip = [str(environment.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--require-hashes", "-r", str(LOCK)], check=True, timeout=INSTALL_TIMEOUT_S
    )
    complete.write_text(lock_sha256)
    return environment
