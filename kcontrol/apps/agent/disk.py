"""What an agent remembers over its lives: its own incarnations, so that the next one can prove that it is the
same agent, and which nodes said that nobody is to start them again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from kcontrol.core.cluster.unit_ends import LeftOut
from kcontrol.errors import ConfigurationError
from kcontrol.settings.locks import LockedError, lock

KEPT = 100
"""Incarnations: the newest, and that which the cluster's value held when it was read last."""


class AgentDisk:
    """The working directory of one agent, which one process at a time has. Whatever can't be written raises OSError, and is as
    it was before."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigurationError if another process has it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.units = folder / "units"
        self._file, self._left_out = folder / "incarnations.json", folder / "left-out-by-log.json"
        self._left_out_before = folder / "left-out.json"
        """Of an older version, which did not write down of which log of agents they are."""
        self._seen_file = folder / "seen.json"
        try:
            self._lock: BinaryIO = lock(folder / "lock")
        except LockedError as error:
            raise ConfigurationError(
                f"another agent works in {folder}: {error}; give each its own --work-dir"
            ) from error
        self.incarnations: tuple[str, ...] = tuple(str(one) for one in _json(self._file))
        self._seen = next((str(one) for one in _json(self._seen_file)), "")

    def new_incarnation(self, name: str) -> str:
        """A new name, which is on the disk before anybody hears of it."""
        incarnation = f"{name}-{uuid4().hex[:12]}"
        kept = (*self.incarnations, incarnation)[-KEPT:]
        kept = (self._seen, *kept[1:]) if self._seen and self._seen not in kept else kept
        _write(self._file, kept)
        self.incarnations = kept
        return incarnation

    def see(self, incarnation: str) -> None:
        """The cluster's value has this one of its incarnations: it is not forgotten until another one is seen there, however
        often the agent is started meanwhile and does not get so far."""
        if incarnation != self._seen:
            _write(self._seen_file, (incarnation,))
            self._seen = incarnation

    def left_out(self) -> list[LeftOut]:
        """All that are not to be started again."""
        found = (*_json(self._left_out), *((*one, 0) for one in _json(self._left_out_before)))
        return [
            LeftOut((str(job), str(task), int(index)), int(at), int(founded_ms))
            for job, task, index, at, founded_ms in found
        ]

    def leave_out(self, units: Iterable[LeftOut]) -> None:
        """These, and no others any more."""
        _write(self._left_out, [(*one.unit, one.generation, one.founded_ms) for one in sorted(units)])
        self._left_out_before.unlink(missing_ok=True)

    def close(self) -> None:
        self._lock.close()


def _json(file: Path) -> Sequence[Any]:
    found: Sequence[Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else ()
    return found


def _write(file: Path, what: Sequence[Any]) -> None:
    written = file.with_suffix(".new")
    with written.open("w", encoding="utf-8") as out:
        json.dump(what, out)
        out.flush()
        os.fsync(out.fileno())
    written.replace(file)
