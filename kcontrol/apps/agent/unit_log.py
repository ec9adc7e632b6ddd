"""What a unit's process says goes into one file for as long as it lives, so the file is cut now and then."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

LOG_BYTES = 64 << 20
_LAST_BYTES = 4_096


def keep_short(log: Path, most_bytes: int) -> bool:
    """Move what a log holds to `log.1` beside it once there are more than so many bytes; what `log.1` held before is gone.

    Returns whether it was moved. Raises OSError.

    Its writer, which has it open to append, goes on at the beginning. What is said while it is copied may be lost.
    """
    if not log.exists() or log.stat().st_size <= most_bytes:
        return False
    written = log.with_name(f"{log.name}.new")
    try:
        shutil.copyfile(log, written)
        written.replace(_older(log))
    finally:
        written.unlink(missing_ok=True)
        # Also where there is no room for the older half: then that is what has to go.
        with log.open("r+b") as held:
            held.truncate(0)
    return True


def last_line(log: Path) -> str:
    """Of what was said; '' if nothing was."""
    for file in (log, _older(log)):
        with suppress(FileNotFoundError), file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _LAST_BYTES))
            lines = opened.read().decode(errors="replace").split("\n")
            if found := next((line for line in reversed(lines) if line.strip()), ""):
                return found.removeprefix("kcontrol: ")
    return ""


def _older(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")
