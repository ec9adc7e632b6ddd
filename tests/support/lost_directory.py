"""A directory that is lost while a JVM that knows of it lives on."""

from __future__ import annotations

import shutil
from pathlib import Path


def lose(path: Path) -> None:
    """Take a directory away at once. Spark's maintenance of state may still upload a snapshot to where it was, for which it
    makes the directory anew: deleted in its place, it would not always be empty in the end."""
    gone = path.with_name(f".lost-{path.name}")
    path.rename(gone)
    shutil.rmtree(gone)
