"""Finds the Java that the broker and Spark run on, and says clearly when there is none or it is too old.

Looks where Spark looks, in the same order (JAVA_HOME, then PATH), so that what is
accepted here is what Spark will use.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kcontrol.errors import JavaError

MINIMUM_VERSION = 17
"""Spark 4 and Kafka 4 both need it."""

_VERSION_TIMEOUT_S = 30.0
_VERSION = re.compile(r'version "(?P<first>\d+)(?:\.(?P<second>\d+))?')
_ADVICE = (
    f"Install a Java {MINIMUM_VERSION} (or 21) runtime and set JAVA_HOME to its directory, the one that "
    "holds bin/java, or put its java on PATH."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that works: its executable and major version."""

    executable: Path
    version: int


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java of JAVA_HOME, or else of PATH.

    Raises JavaError: there is none, it doesn't run, or it is older than 17.
    """
    executable, origin = _locate(environ)
    version = _major_version(executable, origin, executable.stat().st_mtime_ns)
    if version < MINIMUM_VERSION:
        raise JavaError(
            f"Found Java {version} at {executable} ({origin}), but Java {MINIMUM_VERSION} or newer is "
            f"needed. {_ADVICE}"
        )
    return Java(executable, version)


def _locate(environ: Mapping[str, str]) -> tuple[Path, str]:
    home = environ.get("JAVA_HOME", "")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise JavaError(f"JAVA_HOME is {home!r}, but there is no program bin/java in it. {_ADVICE}")
        return executable, "from JAVA_HOME"
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is None:
        raise JavaError(f"No Java found: JAVA_HOME is not set and there is no java on PATH. {_ADVICE}")
    return Path(found), "from PATH"


@lru_cache(maxsize=8)
def _major_version(executable: Path, origin: str, _written_ns: int) -> int:
    """Asked of each program once: the answer takes a JVM. One that was written since is another."""
    try:
        result = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(
            f"The java at {executable} ({origin}) could not be run: {error}. {_ADVICE}"
        ) from error
    said = result.stderr + result.stdout
    match = _VERSION.search(said)
    if result.returncode != 0 or match is None:
        first_line = next(iter(said.strip().splitlines()), "nothing")
        raise JavaError(
            f"The java at {executable} ({origin}) did not tell its version; it said: {first_line}. {_ADVICE}"
        )
    first = int(match["first"])
    # Up to Java 8 the version was written 1.8.
    return int(match["second"] or 0) if first == 1 else first
