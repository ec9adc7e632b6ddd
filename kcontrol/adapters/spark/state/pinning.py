"""Which files of a query's directory Spark needs to go on after one batch, and no others.

From Spark's two logs: the plan and the record of the batch itself, and the plan of the one before, because a
restart reads the last two (MicroBatchExecution.populateStartOffsets). The records of earlier batches are left
out on purpose: the state of those batches is not in the pin, so nobody must think that they can be opened. Of
each state store: the newest snapshot that the batch's version builds on with the files it shares, and the
changelogs after it; where a store's files don't read as RocksDB's of checkpoint format 2, everything that the
store has, which is too much but never too little. Of a partition that another node owns, nothing. Everything
else (schemas, operators' metadata, the query's id) is small and is needed whole.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from kcontrol.adapters.spark.state.formats import unique_ids
from kcontrol.adapters.spark.state.lineage import SHARED, STATE, StateVersion, lineage, shared_files

LOGS = ("commits", "offsets")
OPERATOR_METADATA = "_metadata"

_STORE_FILE = re.compile(r"[0-9]+(_[0-9A-Fa-f-]+)?\.(zip|changelog|delta|snapshot)\Z")


def is_stray(name: str) -> bool:
    """Whether it is a temporary file that is being written, or that a killed process left."""
    return ".tmp" in name


def store_of(path: PurePath) -> tuple[int, int] | None:
    """By a file's path in a query's directory, operator and partition of the state store that it is a file of; None: it
    tells of stores, or of other things, and is the same on every node."""
    top, operator, partition, *inner = (*path.parts, "", "", "")
    *folders, name = [part for part in inner if part] or [""]
    if top != STATE or not operator.isdecimal() or not partition.isdecimal():
        return None
    if not set(folders) & set(SHARED) and not _STORE_FILE.match(_without_checksum(name)):
        return None
    return int(operator), int(partition)


def needed_files(query: Path, batch: int) -> list[Path]:
    """Files, relative to the query's directory, that Spark needs to go on after `batch`.

    Raises FileNotFoundError: the batch is not recorded, or a file of its state is not there (any more);
    ConfigurationError: its record is of a version that is not known.
    """
    logs = [Path("offsets", str(number)) for number in (batch - 1, batch) if number >= 0] + [
        Path("commits", str(batch))
    ]
    for log in logs:
        if not (query / log).is_file():
            raise _missing(query / log)
    files = [path for log in logs for path in (log, *_checksums(query, log))]
    files += _plain_files(query)
    if (query / STATE).is_dir():
        files += _state_files(query, batch)
    return files


def _plain_files(query: Path) -> Iterator[Path]:
    """What belongs to no log and no state."""
    for folder, folders, names in os.walk(query):
        if Path(folder) == query:
            folders[:] = [name for name in folders if name not in (*LOGS, STATE)]
        yield from (Path(folder, name).relative_to(query) for name in names if not is_stray(name))


def _state_files(query: Path, batch: int) -> Iterator[Path]:
    ids = unique_ids(query / "commits" / str(batch))
    found: set[tuple[str, str, str]] = set()
    for folder, folders, names in os.walk(query / STATE):
        directory = Path(folder)
        if directory.name in SHARED:
            continue
        store = {name for name in names if _STORE_FILE.match(name)}
        plain = [
            name for name in names if not is_stray(name) and not _STORE_FILE.match(_without_checksum(name))
        ]
        yield from ((directory / name).relative_to(query) for name in plain)
        if not store and not set(folders) & set(SHARED):
            continue
        operator, partition = (*directory.relative_to(query / STATE).parts, "", "")[:2]
        if ids.get((operator, partition)) == ():  # Not run here: what there is, is of another time.
            continue
        version = _version(store, batch + 1, ids.get((operator, partition), ()))
        if version is not None:
            found.add((operator, partition, version.unique_id))
        needed = None if version is None else _files_of(directory, store, version)
        chosen = _whole_store(directory, names) if needed is None else needed
        yield from _with_checksums(query, (directory.relative_to(query) / path for path in chosen))
    for (operator, partition), wanted in ids.items():
        for unique_id in wanted:
            if (operator, partition, unique_id) not in found:
                missing = StateVersion(batch + 1, unique_id).changelog
                raise _missing(query / STATE / operator / partition / missing)


def _version(store: set[str], version: int, ids: Iterable[str]) -> StateVersion | None:
    """Of the partition's versions, the one that this store has."""
    for unique_id in ids:
        candidate = StateVersion(version, unique_id)
        if candidate.changelog in store or candidate.snapshot in store:
            return candidate
    return None


def _files_of(directory: Path, store: set[str], version: StateVersion) -> list[str] | None:
    """The newest snapshot that `version` builds on and the changelogs after it; None when that can't be
    told."""
    if version.snapshot in store:
        line: tuple[StateVersion, ...] | None = (version,)
    else:
        before = lineage(directory / version.changelog)
        line = None if before is None else (*before, version)
    if line is None:
        return None
    base = max((each for each in line if each.snapshot in store), default=None)
    if base is None and line[0].version != 1:
        return None
    after = [each for each in line if base is None or each.version > base.version]
    for each in after:
        if each.changelog not in store:
            raise _missing(directory / each.changelog)
    if base is None:
        return [each.changelog for each in after]
    shared = shared_files(directory / base.snapshot)
    return None if shared is None else [*shared, base.snapshot, *(each.changelog for each in after)]


def _whole_store(directory: Path, names: Iterable[str]) -> Iterator[str]:
    """A store's own files and those that its snapshots share."""
    yield from (name for name in names if _STORE_FILE.match(name))
    for shared in SHARED:
        if (directory / shared).is_dir():
            yield from (
                f"{shared}/{path.name}" for path in (directory / shared).iterdir() if not is_stray(path.name)
            )


def _with_checksums(query: Path, paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.name.endswith(".crc"):
            continue
        yield path
        yield from _checksums(query, path)


def _checksums(query: Path, path: Path) -> Iterator[Path]:
    """Hadoop's beside a file, and Spark's own."""
    for name in (f".{path.name}.crc", f"{path.name}.crc"):
        if (query / path.parent / name).is_file():
            yield path.parent / name


def _without_checksum(name: str) -> str:
    return name.removesuffix(".crc").removeprefix(".") if name.endswith(".crc") else name


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
