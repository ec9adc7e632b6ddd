"""A package is what its name says, or nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256

import pytest

from kcontrol.errors import ConfigurationError, DamagedRecordError
from kcontrol.wire import packages
from kcontrol.wire.codec import record_bytes
from kcontrol.wire.packages import (
    MAX_BYTES,
    MAX_FILES,
    PART_BYTES,
    CodePackage,
    PackagedFile,
    PackageParts,
    is_package_name,
    package_of,
    records_of,
)
from kcontrol.wire.schemas import current_schemas

FILES = {"flights.py": b"import rules\n", "rules/__init__.py": b"", "rules/data.csv": b"a,b\n" * 100}
FIRST_NAME = "87f4942064321fdc3ac618b574b0f94b17f9384438863fd7d303068414138950"


def read(
    package: CodePackage, *, name: str = "", damage: dict[int, bytes | None] | None = None
) -> CodePackage:
    """What a host makes of its records, some of which are others."""
    parts = PackageParts(name or package.name)
    for key, value in records_of(package):
        number = int(key.split(b"/")[1])
        parts.see(key, (damage or {}).get(number, value))
    assert parts.is_whole
    return parts.package()


def test_a_package_comes_back_as_it_was_made() -> None:
    package = package_of("flights.py", FILES)
    assert read(package) == package
    assert is_package_name(package.name)
    assert package_of("flights.py", dict(reversed(FILES.items()))).name == package.name
    for other in ({**FILES, "more.py": b""}, {**FILES, "flights.py": b"import other\n"}):
        assert package_of("flights.py", other).name != package.name
    assert package_of("rules/__init__.py", FILES).name != package.name


def test_what_a_package_requires_is_part_of_what_it_is() -> None:
    files = {**FILES, "needs.txt": b"tides==1.0\n"}
    without, package = package_of("flights.py", files), package_of("flights.py", files, "needs.txt")
    assert read(package) == package
    assert package.name != without.name
    assert (package.requirements, without.requirements) == (b"tides==1.0\n", b"")
    with pytest.raises(ConfigurationError, match=r"'needs\.md' is not there"):
        package_of("flights.py", files, "needs.md")


def test_what_was_packed_by_the_first_version_has_the_same_name_for_ever() -> None:
    assert package_of("a.py", {"a.py": b"1"}).name == FIRST_NAME
    manifest = package_of("a.py", {"a.py": b"1"}).manifest
    rewritten = record_bytes(manifest, current_schemas()["PackageManifest"])
    parts = PackageParts(sha256(rewritten).hexdigest())
    for key, value in records_of(package_of("a.py", {"a.py": b"1"})):
        parts.see(key.replace(FIRST_NAME.encode(), sha256(rewritten).hexdigest().encode()), value)
    parts.see(f"{sha256(rewritten).hexdigest()}/0/1".encode(), rewritten)
    with pytest.raises(DamagedRecordError, match="is not written as one is"):
        parts.package()


def test_one_of_many_parts_comes_back_too_and_is_not_whole_before() -> None:
    package = package_of("a.py", {"a.py": b"", "noise.bin": random.Random(1).randbytes(3 * PART_BYTES)})
    records = list(records_of(package))
    assert len(records) == 5
    parts = PackageParts(package.name)
    for key, value in records:
        assert not parts.is_whole
        parts.see(key, value)
    assert parts.package() == package
    parts.see(records[2][0], None)
    assert not parts.is_whole, "a part of it was deleted"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "not allowed"),
        ("../out.py", "not allowed"),
        ("a/../../out.py", "not allowed"),
        ("a//b.py", "not allowed"),
        (".profile", "not allowed"),
        ("a\\b.py", "not allowed"),
        ("x" * 300 + ".py", "not allowed"),
        ("flights.py/more.py", "not allowed"),
        ("a\n.py", "not allowed"),
    ],
)
def test_paths_that_lead_anywhere_else_are_neither_packed_nor_unpacked(path: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        package_of("flights.py", {**FILES, path: b""})
    good = package_of("flights.py", FILES)
    evil = replace(good.manifest, files=(*good.manifest.files, PackagedFile(path, 0, "")))
    with pytest.raises(DamagedRecordError, match=f"it is not unpacked: .*{why}"):
        read(CodePackage(evil, {**FILES, path: b""}))


def test_limits_are_kept_by_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=f"{MAX_FILES + 1} files"):
        package_of("0.py", {f"{n}.py": b"" for n in range(MAX_FILES + 1)})
    large = package_of("flights.py", FILES)
    said = replace(large.manifest, files=(PackagedFile("flights.py", MAX_BYTES + 1, ""),))
    with pytest.raises(DamagedRecordError, match=f"{MAX_BYTES + 1} bytes"):
        read(CodePackage(said, FILES))
    monkeypatch.setattr(packages, "MAX_PACKED_BYTES", 20)
    with pytest.raises(ConfigurationError, match="bytes after compression, and may have 20"):
        list(records_of(large))


def test_what_is_not_what_was_submitted_is_not_unpacked() -> None:
    package, other = package_of("flights.py", FILES), package_of("flights.py", {"flights.py": b"import os\n"})
    content, manifest = (value for _, value in records_of(other))
    with pytest.raises(DamagedRecordError, match="its manifest is another one's"):
        read(package, damage={0: manifest})
    with pytest.raises(DamagedRecordError, match="bytes together"):
        read(package, damage={1: content})
    with pytest.raises(DamagedRecordError, match="can't be uncompressed"):
        read(package, damage={1: b"no zlib"})
    changed = package_of("flights.py", {**FILES, "flights.py": b"import others"})
    with pytest.raises(DamagedRecordError, match="is not what its manifest says"):
        read(package, damage={1: next(iter(records_of(changed)))[1]})


def test_what_would_become_larger_than_it_says_is_not_uncompressed() -> None:
    bomb = package_of("a.py", {"a.py": bytes(10 << 20)})
    said = replace(bomb.manifest, files=(replace(bomb.manifest.files[0], size_bytes=5),))
    with pytest.raises(DamagedRecordError, match="not of 5 bytes together"):
        read(CodePackage(said, bomb.contents))
