"""Directories shaped as Spark 4.3 makes them (RocksDB, checkpoint format 2), and a reader
that loads state as Spark does.

The formats were taken from files that Spark wrote, and from RocksDB.scala;
tests/integration/spark tries the real thing.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
import zipfile
from collections.abc import Sequence
from pathlib import Path

import cramjam

from kcontrol.adapters.spark.state.lineage import StateVersion

STORE = Path("state", "0", "0")


def new_version(version: int) -> StateVersion:
    return StateVersion(version, str(uuid.uuid4()))


def changelog(
    line: Sequence[StateVersion], block_bytes: int = 1 << 15, packed: bool = True, form: str = "v3"
) -> bytes:
    """line: the versions before it. In blocks of lz4-java, each packed or stored."""
    told = json.dumps(
        [{"version": each.version, "checkpointUniqueId": each.unique_id} for each in line],
        separators=(",", ":"),
    )
    content = (
        b"".join(struct.pack(">H", len(text)) + text.encode() for text in (form, told)) + b"\xff\xff\xff\xff"
    )
    blocks = [content[at : at + block_bytes] for at in range(0, len(content), block_bytes)]
    return b"".join(_block(block, packed) for block in blocks) + _block(b"", False)


def _block(content: bytes, packed: bool) -> bytes:
    stored = bytes(cramjam.lz4.compress_block(content, store_size=False)) if packed else content
    return (
        struct.pack("<8sBiii", b"LZ4Block", 0x25 if packed else 0x15, len(stored), len(content), 0) + stored
    )


def snapshot(shared: Sequence[str]) -> bytes:
    """shared: names of SST files."""
    told = {
        "sstFiles": [
            {"localFileName": "000008.sst", "dfsSstFileName": name, "sizeBytes": 3} for name in shared
        ],
        "numKeys": 4,
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("MANIFEST-000005", b"binary")
        archive.writestr("metadata", "v1\n" + json.dumps(told))
    return written.getvalue()


def put(path: Path, content: bytes | str, checksum: bool = True) -> None:
    """A file, as Hadoop leaves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if checksum:
        path.with_name(f".{path.name}.crc").write_bytes(b"crc")


def put_batch(query: Path, batch: int, ids: dict[str, list[list[str]]] | None = None) -> None:
    """Plan and record of a batch. ids: by operator, for each partition, of its stores' versions."""
    put(query / "metadata", '{"id":"f00"}')
    put(query / "offsets" / str(batch), f'v1\n{{}}\n{{"step": {batch + 1}}}')
    told = {"nextBatchWatermarkMs": 0, **({} if ids is None else {"stateUniqueIds": ids})}
    put(query / "commits" / str(batch), "v2\n" + json.dumps(told))


def put_operator(query: Path, history: Path) -> None:
    """A stateful operator's metadata and schemas, which name a file by absolute path."""
    schema = f"file:{history}/{query.name}/state/0/_stateSchema/default/0_s"
    put(query / "state" / "0" / "_stateSchema" / "default" / "0_s", b"schema")
    put(query / "state" / "0" / "_metadata" / "v2" / "0", 'v2\n{"stateSchemaFilePath":"' + schema + '"}')
    put(query / STORE / "_metadata" / "schema", b"\x00schema")


def put_changelog(store: Path, line: Sequence[StateVersion], version: StateVersion) -> None:
    put(store / version.changelog, changelog(line))


def put_snapshot(store: Path, version: StateVersion) -> None:
    shared = f"000008-{uuid.uuid4()}.sst"
    put(store / "SSTs" / shared, b"sst")
    put(store / version.snapshot, snapshot([shared]))


class StateLostError(Exception):
    """Spark could not load the state."""


def load(store: Path, version: StateVersion) -> list[str]:
    """Names of the files that Spark would load a version from, in order, as
    RocksDB.loadWithCheckpointId does."""
    if (store / version.snapshot).exists():
        return _load_snapshot(store, version)
    line = [*_read_line(store, version), version]
    based = [each for each in line if (store / each.snapshot).exists()]
    if not based and line[0].version != 1:
        raise StateLostError(f"no snapshot for {version}")
    base = max(based) if based else StateVersion(0, "")
    loaded = _load_snapshot(store, base) if based else []
    for each in line:
        if each.version > base.version:
            if not (store / each.changelog).exists():
                raise StateLostError(each.changelog)
            loaded.append(each.changelog)
    return loaded


def _load_snapshot(store: Path, version: StateVersion) -> list[str]:
    with zipfile.ZipFile(store / version.snapshot) as archive:
        told = json.loads(archive.read("metadata").split(b"\n", 1)[1])
    names = [f"SSTs/{item['dfsSstFileName']}" for item in told["sstFiles"]]
    for name in names:
        if not (store / name).exists():
            raise StateLostError(name)
    return [*names, version.snapshot]


def _read_line(store: Path, version: StateVersion) -> list[StateVersion]:
    if not (store / version.changelog).exists():
        raise StateLostError(version.changelog)
    content, packed = b"", (store / version.changelog).read_bytes()
    while packed:
        _, token, stored_bytes, size_bytes, _ = struct.unpack_from("<8sBiii", packed)
        stored, packed = packed[21 : 21 + stored_bytes], packed[21 + stored_bytes :]
        content += (
            bytes(cramjam.lz4.decompress_block(stored, output_len=size_bytes)) if token & 0x20 else stored
        )
    at = 2 + content[1]
    told = json.loads(content[at + 2 : at + 2 + int.from_bytes(content[at : at + 2], "big")])
    return sorted(StateVersion(item["version"], item["checkpointUniqueId"]) for item in told)
