"""Files whose rights are asked for, also where the tests are run by root, of whom nothing is asked."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65_534


@contextmanager
def public_directory() -> Iterator[Path]:
    """That everyone may use, unlike pytest's own. Removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="kcontrol-rights-"))
    path.chmod(0o777)
    try:
        yield path
    finally:
        for each, _, _ in os.walk(path):
            Path(each).chmod(0o777)
        shutil.rmtree(path)


@contextmanager
def without_privileges() -> Iterator[None]:
    """For the block, the process is nobody, if it is root. Nothing else may be at work in it."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
