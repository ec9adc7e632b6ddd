"""The code of a job as bytes: a manifest, whose SHA-256 is the name of the package, and the content of its files,
compressed, in parts that fit into records of Kafka.

Whoever has the name can tell whether what was read is what was submitted: the manifest by the name, and each file by the
manifest. So nothing rests on who wrote the topic. Every limit is checked before anything of that size is made.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from kcontrol.errors import ConfigurationError, DamagedRecordError
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, record_bytes, record_of
from kcontrol.wire.schemas import current_schemas, released_schemas

PACKAGE = "sha256:"
"""What the package of a job begins with, whose code was submitted with it."""
PART_BYTES = 512 << 10
MAX_RECORD_BYTES = 1 << 20
"""Of a part; a manifest may be larger than others."""
MAX_PACKED_BYTES = 16 << 20
MAX_BYTES = 64 << 20
"""Of all files together."""
MAX_FILES = 2_000
MAX_PATH = 200
_NAME = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ -]*")
_KEY = re.compile(r"([0-9a-f]{64})/(\d{1,6})/(\d{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """One file. sha256: of its content."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PackageManifest:
    """What is in a package. entry: path of the file that defines the pipeline. requirements: path of the file that names
    the libraries that it requires, '' if none does."""

    entry: str
    files: tuple[PackagedFile, ...]
    requirements: str = ""


@dataclass(frozen=True, slots=True)
class CodePackage:
    """All of it. contents: by path."""

    manifest: PackageManifest
    contents: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """64 hexadecimal digits."""
        return sha256(_manifest_bytes(self.manifest)).hexdigest()

    @property
    def requirements(self) -> bytes:
        """Of libraries, as in the file that names them; nothing if there is none."""
        return self.contents[self.manifest.requirements] if self.manifest.requirements else b""


def package_of(entry: str, contents: Mapping[str, bytes], requirements: str = "") -> CodePackage:
    """Raises ConfigurationError for more, or larger, or otherwise called files than may be."""
    files = tuple(
        PackagedFile(path, len(contents[path]), sha256(contents[path]).hexdigest())
        for path in sorted(contents)
    )
    manifest = PackageManifest(entry, files, requirements)
    if wrong := _why_not(manifest):
        raise ConfigurationError(f"a package of these files can't be made: {wrong}")
    return CodePackage(manifest, dict(contents))


def is_package_name(text: str) -> bool:
    """Whether it can be the name of one."""
    return _NAME.fullmatch(text) is not None


def is_manifest_of(name: str, key: bytes | None) -> bool:
    """Whether the record with this key has the manifest of the package of that name."""
    found = _KEY.fullmatch((key or b"").decode(errors="replace"))
    return found is not None and found[1] == name and int(found[2]) == 0


def records_of(package: CodePackage) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each record: the manifest, which is part 0, last. Raises ConfigurationError for one that is too
    large."""
    packed = zlib.compress(b"".join(package.contents[file.path] for file in package.manifest.files), 9)
    if len(packed) > MAX_PACKED_BYTES:
        raise ConfigurationError(
            f"the package has {len(packed)} bytes after compression, and may have {MAX_PACKED_BYTES}: leave out what the "
            "pipeline does not need, or put it where the hosts can read it"
        )
    parts = [packed[begin : begin + PART_BYTES] for begin in range(0, len(packed), PART_BYTES)]
    name = package.name
    for number, part in enumerate(parts, start=1):
        yield _key(name, number, len(parts)), part
    yield _key(name, 0, len(parts)), _manifest_bytes(package.manifest)


class PackageParts:
    """Collects what there is of one package among the records of the topic."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = -1
        self._parts: dict[int, bytes] = {}

    def see(self, key: bytes | None, value: bytes | None) -> None:
        """One more record; those of other packages, and what nobody knows, change nothing."""
        found = _KEY.fullmatch((key or b"").decode(errors="replace"))
        if found is None or found[1] != self._name:
            return
        if value is None:
            self._parts.pop(int(found[2]), None)
            return
        number, count = int(found[2]), int(found[3])
        if number <= count <= MAX_PACKED_BYTES // PART_BYTES + 1 and len(value) <= MAX_RECORD_BYTES:
            self._count = count
            self._parts[number] = value

    @property
    def is_whole(self) -> bool:
        return self._count >= 0 and self._parts.keys() >= set(range(self._count + 1))

    def package(self) -> CodePackage:
        """Raises DamagedRecordError: it is not the one of that name, or may not be unpacked."""
        manifest = _manifest(self._parts[0], self._name)
        total = sum(file.size_bytes for file in manifest.files)
        unpacking = zlib.decompressobj()
        try:
            packed = b"".join(self._parts[number] for number in range(1, self._count + 1))
            content = unpacking.decompress(packed, total + 1)
        except zlib.error as error:
            raise self._damaged(f"it can't be uncompressed: {error}") from error
        if len(content) != total:
            raise self._damaged(f"its files are not of {total} bytes together")
        contents, begin = {}, 0
        for file in manifest.files:
            contents[file.path] = content[begin : begin + file.size_bytes]
            begin += file.size_bytes
            if sha256(contents[file.path]).hexdigest() != file.sha256:
                raise self._damaged(f"{file.path} is not what its manifest says")
        return CodePackage(manifest, contents)

    def _damaged(self, why: str) -> DamagedRecordError:
        return DamagedRecordError(f"package {self._name}: {why}; submit it again")


def _key(name: str, number: int, count: int) -> bytes:
    return f"{name}/{number}/{count}".encode()


def _manifest_bytes(manifest: PackageManifest) -> bytes:
    """By the first schema that has all that it says: what was packed once has the same name for ever."""
    first, *_ = released_schemas()[PackageManifest.__name__]
    newest = current_schemas()[PackageManifest.__name__]
    return record_bytes(manifest, newest if manifest.requirements else first)


def _manifest(data: bytes, name: str) -> PackageManifest:
    if sha256(data).hexdigest() != name:
        raise DamagedRecordError(f"package {name}: its manifest is another one's; submit it again")
    found = manifest_of(data)
    if found is None:
        raise DamagedRecordError(f"package {name}: this version can't read its manifest; install a newer one")
    if wrong := _why_not(found):
        raise DamagedRecordError(f"package {name}: it is not unpacked: {wrong}")
    if _manifest_bytes(found) != data:
        raise DamagedRecordError(f"package {name}: its manifest is not written as one is; submit it again")
    return found


def manifest_of(data: bytes) -> PackageManifest | None:
    """What was written, of whatever version; None if these bytes are no manifest."""
    schema = PackageManifest.__name__
    known = {one.fingerprint: one for one in released_schemas()[schema]}
    written = known.get(data[len(MAGIC) : HEADER_BYTES])
    if written is None or not data.startswith(MAGIC):
        return None
    try:
        found: PackageManifest = record_of(
            data, written, current_schemas()[schema], PackageManifest, "a manifest"
        )
    except DamagedRecordError:
        return None
    return found


def _why_not(manifest: PackageManifest) -> str:
    """'' if it may be unpacked anywhere."""
    paths = [file.path for file in manifest.files]
    if len(paths) > MAX_FILES:
        return f"{len(paths)} files, and {MAX_FILES} are allowed"
    named = filter(None, (manifest.entry, manifest.requirements))
    if len(set(paths)) != len(paths) or not manifest.entry or not all(one in paths for one in named):
        return f"a path is there twice, or {manifest.entry!r} or {manifest.requirements!r} is not there"
    if bad := next(_bad_paths(paths), ""):
        return f"the path {bad!r} is not allowed"
    total = sum(file.size_bytes for file in manifest.files)
    if total > MAX_BYTES or any(file.size_bytes < 0 for file in manifest.files):
        return f"{total} bytes, and {MAX_BYTES} are allowed"
    return ""


def _bad_paths(paths: Iterable[str]) -> Iterator[str]:
    """Absolute ones, those that lead out, hidden files, one that is both a file and a folder."""
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    for path in paths:
        parts = path.split("/")
        if len(path) > MAX_PATH or path in folders or not all(map(_PART.fullmatch, parts)):
            yield path
