"""Scratch directories of processes that answer questions: each goes with its process, or is swept by the next one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kcontrol.errors import ConfigurationError
from kcontrol.settings.locks import LockedError, lock

_LOCK = ".lock"


@contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """A directory of this process under `root`, which nobody else may read; those of processes that have died are
    deleted first. Raises ConfigurationError: the file system does not allow it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        directory, held = _made(root)
    except OSError as error:
        raise ConfigurationError(
            f"the scratch directory {root} can't be used: {error}; give another with --scratch"
        ) from error
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        directory.with_suffix(_LOCK).unlink(missing_ok=True)
        held.close()


def _made(root: Path) -> tuple[Path, BinaryIO]:
    while True:
        directory = root / f"{os.getpid()}-{secrets.token_hex(4)}"
        file = directory.with_suffix(_LOCK)
        try:
            held = lock(file)
        except LockedError:
            continue
        if file.exists():  # Nobody has swept it in the moment before it was locked.
            directory.mkdir(mode=0o700)
            return directory, held
        held.close()


def _sweep(root: Path) -> None:
    for file in root.glob(f"*{_LOCK}"):
        try:
            held = lock(file)
        except LockedError:
            continue
        shutil.rmtree(file.with_suffix(""), ignore_errors=True)
        file.unlink(missing_ok=True)
        held.close()
