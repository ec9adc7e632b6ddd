"""Python environments of other programs than kcontrol, each made once from a lock file with hashes.

They are kept under the user's cache directory by the lock's own hash, and made anew when it changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

INSTALL_TIMEOUT_S = 900


def cache_directory() -> Path:
    """The user's cache directory for the bench (XDG base directories)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kcontrol" / "bench"


def made_of(lock: Path, name: str) -> Path:
    """The environment's directory, complete and of this lock. Raises CalledProcessError with pip's output in `stderr`."""
    lock_sha256 = hashlib.sha256(lock.read_bytes()).hexdigest()
    root = cache_directory() / f"{name}-{lock_sha256[:12]}"
    complete = root / "complete"
    if complete.exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    python = [str(root / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", str(root)],
        [*python, "install", "--require-hashes", "-r", str(lock)],
    ):
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S, stderr=subprocess.PIPE, text=True)
    complete.write_text(lock_sha256)
    return root
