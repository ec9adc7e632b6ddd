"""The node's working directory: Spark's checkpoint directories of all queries, per life of the node.

`<root>/<pipeline>/node-N/inc-INC/history-H/<query>/{offsets,commits,state,...}`. A life never writes into another's directory:
a zombie that wakes up late can only damage its own. A new life is seeded with hard links from the newest older one, which
costs no copying; Spark replaces files by renaming, never in place, so the links stay what they were. Each beginning from
nothing gets a new history, because state stores of queries that have ended may still upload a snapshot to where they were, and
Spark refuses to begin in a directory that is not empty. Batch id k is step k + 1.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from kcontrol.errors import ConfigurationError

_PREFIX = "inc-"
_HISTORY = "history-"
_LOGS = ("commits", "offsets")
_HIGHEST = "highest-step.json"
_OPERATOR_METADATA = "_metadata"


class WorkDir:
    """The directory of one incarnation."""

    def __init__(self, root: Path, pipeline: str, node: int, incarnation: int, queries: Sequence[str], retained: int) -> None:
        """retained: how many batches Spark keeps state for (`spark.sql.streaming.minBatchesToRetain`)."""
        self._home = root / pipeline / f"node-{node}"
        self._incarnation = incarnation
        self._queries = tuple(queries)
        self._retained = retained
        self.path = self._home / f"{_PREFIX}{incarnation}"

    def query_path(self, query: str) -> Path:
        """Spark's checkpoint location of one query."""
        return self._history() / query

    def _history(self) -> Path:
        """The newest: a late upload can only bring back an older one."""
        return self.path / f"{_HISTORY}{max(_histories(self.path), default=0)}"

    def prepare(self) -> None:
        """Make the directory, from the newest older life's if there is one; forget older lives then.

        Raises ConfigurationError when the file system does not allow it.
        """
        try:
            self._prepare()
        except OSError as error:
            raise ConfigurationError(
                f"the working directory {self.path} can't be made: {error}; free the disk, correct its rights or choose another"
            ) from error

    def _prepare(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        older = sorted(self._lives(), key=lambda life: life[0])
        if not self.path.exists():
            staging = self._home / f".{self.path.name}.{os.getpid()}"
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            if older:
                number = max(_histories(older[-1][1]), default=0)
                _link_tree(older[-1][1], f"{_HISTORY}{number}", staging, self.path)
            staging.rename(self.path)
        for _, path in [*older, *self._lives(f".{_PREFIX}")]:
            shutil.rmtree(path, ignore_errors=True)

    def _lives(self, prefix: str = _PREFIX) -> Iterator[tuple[int, Path]]:
        """Directories of older lives; never one of a newer, should this process be a zombie."""
        for path in self._home.glob(f"{prefix}*"):
            number = path.name.removeprefix(prefix).partition(".")[0]
            if number.isdecimal() and int(number) < self._incarnation:
                yield int(number), path

    def openable(self) -> tuple[int, ...]:
        """Steps to which every query can be rolled back, newest first."""
        common: set[int] | None = None
        for query in self._queries:
            steps = self._committed(query)
            common = steps if common is None else common & steps
        if not common:
            return ()
        oldest = max(self._highest(), *common) - self._retained + 1
        return tuple(sorted((step for step in common if step > oldest), reverse=True))

    def _committed(self, query: str) -> set[int]:
        planned = {batch + 1 for batch, _ in _batches(self.query_path(query) / "offsets")}
        return planned & {batch + 1 for batch, _ in _batches(self.query_path(query) / "commits")}

    def _highest(self) -> int:
        try:
            return int(json.loads((self._history() / _HIGHEST).read_text())["step"])
        except FileNotFoundError:
            return 0

    def create(self) -> None:
        """Forget everything: the pipeline begins before step 1."""
        before = _histories(self.path)
        (self.path / f"{_HISTORY}{max(before, default=0) + 1}").mkdir()
        for number in before:
            shutil.rmtree(self.path / f"{_HISTORY}{number}", ignore_errors=True)
        for query in self._queries:
            self.query_path(query).mkdir()

    def roll_back(self, step: int) -> None:
        """Make Spark resume after `step`: its queries must be stopped. What it planned or recorded later is deleted.

        State of later batches may stay: state files are named by ids that only the deleted commits knew.
        """
        newest = max((max(self._committed(query), default=0) for query in self._queries), default=0)
        if newest > self._highest():
            staging = self._history() / f".{_HIGHEST}"
            staging.write_text(json.dumps({"step": newest}))
            staging.replace(self._history() / _HIGHEST)
        for query in self._queries:
            # Offsets last: a batch that is recorded but not planned is something that Spark refuses to open.
            for log in _LOGS:
                for batch, path in _batches(self.query_path(query) / log):
                    if batch >= step:
                        _delete_with_checksum(path)
                for stray in _strays(self.query_path(query) / log):
                    stray.unlink()

    def planned_steps(self, query: str, batch: int) -> list[int]:
        """The step at which each source of a batch ends, as Spark wrote it down before the batch ran."""
        lines = (self.query_path(query) / "offsets" / str(batch)).read_text().splitlines()
        return [json.loads(line)["step"] for line in lines[2:] if line != "-"]


def _histories(life: Path) -> list[int]:
    numbers = [path.name.removeprefix(_HISTORY) for path in life.glob(f"{_HISTORY}*")]
    return [int(number) for number in numbers if number.isdecimal()]


def _batches(log: Path) -> list[tuple[int, Path]]:
    if not log.is_dir():
        return []
    return [(int(path.name), path) for path in log.iterdir() if path.name.isdecimal()]


def _strays(log: Path) -> list[Path]:
    """Temporary files that a killed process left in a log."""
    return [path for path in log.iterdir() if ".tmp" in path.name] if log.is_dir() else []


def _delete_with_checksum(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.unlink()


def _link_tree(source: Path, below: str, target: Path, final: Path) -> None:
    """Hard links of all files of `source` that are under `below`.

    The source may still be written to by a zombie: commits are linked first, because what they name was there before them, and
    a file that vanishes on the way was no longer needed.
    """
    files = sorted(
        (source / below).rglob("*"), key=lambda path: (path.parent.name not in _LOGS, path.parent.name != "commits", path)
    )
    for path in files:
        if path.is_dir() or ".tmp" in path.name:
            continue
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            if _OPERATOR_METADATA in path.parts:
                _copy_moved(path, place, source, final)
            else:
                os.link(path, place)
        except FileNotFoundError:
            continue


def _copy_moved(path: Path, place: Path, before: Path, after: Path) -> None:
    """Copy a stateful operator's metadata, which names the files of its state schema by absolute path, to its new place."""
    if path.suffix == ".crc":
        return  # of what the file was; Spark does without
    place.write_bytes(path.read_bytes().replace(before.as_uri()[7:].encode(), after.as_uri()[7:].encode()))
