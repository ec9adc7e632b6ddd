"""What an agent remembers over its lives: its own incarnations, so that the next one can prove that it is the
same agent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from kcontrol.errors import ConfigurationError
from kcontrol.settings.locks import LockedError, lock

KEPT = 100
"""Incarnations; the cluster's value holds at most one of them."""


class AgentDisk:
    """The working directory of one agent, which one process at a time has."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigurationError if another process has it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.units = folder / "units"
        self._file = folder / "incarnations.json"
        try:
            self._lock: BinaryIO = lock(folder / "lock")
        except LockedError as error:
            raise ConfigurationError(
                f"another agent works in {folder}: {error}; give each its own --work-dir"
            ) from error
        self.incarnations: tuple[str, ...] = self._read()

    def _read(self) -> tuple[str, ...]:
        if not self._file.exists():
            return ()
        return tuple(str(one) for one in json.loads(self._file.read_text(encoding="utf-8")))

    def new_incarnation(self, name: str) -> str:
        """A new name, which is on the disk before anybody hears of it."""
        incarnation = f"{name}-{uuid4().hex[:12]}"
        self.incarnations = (*self.incarnations, incarnation)[-KEPT:]
        written = self._file.with_suffix(".new")
        with written.open("w", encoding="utf-8") as file:
            json.dump(self.incarnations, file)
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._file)
        return incarnation

    def close(self) -> None:
        self._lock.close()
