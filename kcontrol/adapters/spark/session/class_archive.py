"""Java's archive of the classes that Spark loads (JEP 350): a JVM that starts from it
needs a third less processor time.

`kcontrol warm` makes one for this PySpark and this Java, and it is found by the names of both. Java checks
that it fits, the times and sizes of all jars too, and does without one that does not: an archive can make a
start slower, never different.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pyspark

from kcontrol.adapters.java import Java, find_java
from kcontrol.errors import JavaError
from kcontrol.settings.places import cache_home
from kcontrol.settings.scratch import scratch_directory

TRAINING_MODULE = "kcontrol.apps.class_training"
TRAINING_TIMEOUT_S = 300.0
"""Of each try."""
TRIES = 2
TRAINED_BY = 2
"""Goes up when another training leaves other classes: an archive of before is made anew, and deleted then."""
SCRATCH = "classes"
"""What the directories beside it are called in which it is made."""
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Not a word about an archive that does not fit."""
_SHOWN_CHARACTERS = 2_000


def archive_path(java: Java) -> Path:
    """Where the archive of this PySpark and this Java lies, or would. After an upgrade in place it lies
    elsewhere: Java would take neither Spark's new jars nor another Java's archive. Of times only seconds
    count: images keep no more."""
    parts = (Path(pyspark.__file__).resolve().parent / "jars", java.executable.resolve())
    text = "\n".join(f"{part} {int(part.stat().st_mtime)}" for part in parts)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return cache_home() / f"spark-{pyspark.__version__}-{digest[:16]}-{TRAINED_BY}.jsa"


def start_options(java: Java) -> str:
    """Options that make a JVM start from the archive; '' if there is none."""
    path = archive_path(java)
    return f'"-XX:SharedArchiveFile={path}" {_QUIET}' if path.is_file() else ""


def training_options(path: Path) -> str:
    """Options that make a JVM leave an archive of what it has loaded when it ends."""
    return f'"-XX:ArchiveClassesAtExit={path}" {_QUIET}'


def make_archive(timeout_s: float = TRAINING_TIMEOUT_S) -> Path:
    """Run a small query in a process of its own and keep what its JVM has loaded, in
    place of any archive that is there. A JVM that ends without writing it, as one does now and then, is given another try.

    Raises JavaError when no archive comes of it, with what was said last; OSError when the cache can't be
    written.
    """
    path = archive_path(find_java())
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        with scratch_directory(SCRATCH, path.parent) as scratch:
            made = scratch / path.name
            done = _train(made, timeout_s)
            if done.returncode == 0 and made.is_file():
                made.replace(path)
                _delete_earlier(path)
                return path
    ended = f"the process that makes it ended with {done.returncode}"
    said = done.stderr[-_SHOWN_CHARACTERS:].strip()
    raise JavaError(f"Java's class archive could not be made: {ended}{' and said: ' if said else ''}{said}")


def _delete_earlier(path: Path) -> None:
    """Archives of the same Spark and Java by another training. A JVM that runs keeps what it has mapped."""
    name = path.stem.rpartition("-")[0]
    for earlier in {*path.parent.glob(f"{name}.jsa"), *path.parent.glob(f"{name}-*.jsa")} - {path}:
        earlier.unlink(missing_ok=True)


def _train(made: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", TRAINING_MODULE, str(made)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise JavaError(f"Java's class archive was not made within {timeout_s:.0f} s.") from error
