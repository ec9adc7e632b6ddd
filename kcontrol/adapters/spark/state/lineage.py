"""What a RocksDB state store's files say of each other, so that a pin can hold exactly those that one version
needs.

Spark 4 with checkpoint format 2 names a store's files VERSION_ID.changelog and VERSION_ID.zip; the commit log
tells the ID of each partition's store. A changelog begins with its lineage: the versions, with their IDs,
that it builds on, since a snapshot or since version 1. A snapshot's zip lists, in its `metadata`, the
immutable files that it shares with others (SSTs/, logs/). Formats as in Spark's StateStoreChangelog.scala,
RocksDB.scala and RocksDBFileManager.scala; compression is the state store's default, LZ4 in the blocks of
lz4-java. Whatever reads otherwise is answered with None: the caller then takes every file.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import cramjam

from kcontrol.adapters.spark.state.formats import CHANGELOG_VERSIONS

STATE = "state"
"""In a query's directory: what its state stores keep."""
SHARED = ("SSTs", "logs")
"""In a store's directory: the immutable files that its snapshots share."""
_MAGIC = b"LZ4Block"
_HEADER = struct.Struct("<8sBiii")
_MAX_BLOCK_BYTES = 32 << 20
"""The largest that lz4-java writes."""
_DATA_DIRECTORIES = {"sstFiles": ("dfsSstFileName", "SSTs"), "logFiles": ("dfsLogFileName", "logs")}


class StateVersion(NamedTuple):
    """One version of one state store: its number is the step's, its ID tells attempts at a step apart."""

    version: int
    unique_id: str

    @property
    def changelog(self) -> str:
        return f"{self.version}_{self.unique_id}.changelog"

    @property
    def snapshot(self) -> str:
        return f"{self.version}_{self.unique_id}.zip"


def lineage(changelog: Path) -> tuple[StateVersion, ...] | None:
    """The versions that a changelog builds on, oldest first, without its own; None when it does not read as
    one.

    Raises FileNotFoundError.
    """
    with changelog.open("rb") as file:
        try:
            content = _Content(_blocks(file))
            if content.utf() not in CHANGELOG_VERSIONS:
                return None
            items = json.loads(content.utf())
            return tuple(
                sorted(StateVersion(int(item["version"]), str(item["checkpointUniqueId"])) for item in items)
            )
        except (ValueError, KeyError, TypeError, EOFError, cramjam.DecompressionError):
            return None


def shared_files(snapshot: Path) -> tuple[str, ...] | None:
    """Paths, relative to the store's directory, of the files that a snapshot shares;
    None when it does not read as one.

    Raises FileNotFoundError.
    """
    try:
        with zipfile.ZipFile(snapshot) as archive:
            _, _, description = archive.read("metadata").partition(b"\n")
        told = json.loads(description)
        return tuple(
            f"{directory}/{item[name]}"
            for kind, (name, directory) in _DATA_DIRECTORIES.items()
            for item in told.get(kind) or ()
        )
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError):
        return None


class _Content:
    """Strings as Java's DataOutputStream.writeUTF leaves them, out of blocks that are
    only unpacked as far as needed."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._left = b""

    def utf(self) -> bytes:
        return self._take(int.from_bytes(self._take(2), "big"))

    def _take(self, size: int) -> bytes:
        while len(self._left) < size:
            block = next(self._blocks, None)
            if block is None:
                raise EOFError
            self._left += block
        taken, self._left = self._left[:size], self._left[size:]
        return taken


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while len(header := file.read(_HEADER.size)) == _HEADER.size:
        magic, token, packed_bytes, size_bytes, _ = _HEADER.unpack(header)
        if (
            magic != _MAGIC
            or not 0 <= size_bytes <= _MAX_BLOCK_BYTES
            or not 0 <= packed_bytes <= _MAX_BLOCK_BYTES
        ):
            raise ValueError("not a block of lz4-java")
        packed = file.read(packed_bytes)
        match token & 0xF0:
            case 0x10:  # stored as it is
                yield packed
            case 0x20:
                yield bytes(cramjam.lz4.decompress_block(struct.pack("<i", size_bytes) + packed))
            case _:
                raise ValueError("not a block of lz4-java")
