"""Bringing a part back, or some of its files, or only looking whether that would work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from kcontrol.adapters.checkpoints.digests import KnownDigests, key_of
from kcontrol.adapters.checkpoints.files import Files
from kcontrol.adapters.checkpoints.layout import LifeFolder, parse_manifest
from kcontrol.adapters.checkpoints.limits import StoreLimits
from kcontrol.adapters.checkpoints.manifests import is_stored, read_manifest, stored_sizes
from kcontrol.adapters.checkpoints.model import BroughtBytes, Manifest, ManifestFile
from kcontrol.errors import CheckpointDamagedError, CheckpointError

AtHand = Callable[[str], Iterable[Path]]
"""Given a file's path in its part: where on this machine the same file may be."""


def restore(files: Files, limits: StoreLimits, manifest: str, target: Path, known: KnownDigests) -> Manifest:
    """Fill `target`, which must be empty or not there. Raises CheckpointDamagedError naming
    the file that is not as it was."""
    read = read_manifest(files, manifest)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise CheckpointError(
                f"{target} is not empty: a checkpoint's part is only restored into an empty directory"
            )
    except OSError as error:
        raise _not_made(target, error) from error
    fetch(files, limits, manifest, read.files, target, known)
    return read


def fetch(
    files: Files,
    limits: StoreLimits,
    manifest: str,
    wanted: Sequence[ManifestFile],
    target: Path,
    known: KnownDigests,
    at_hand: AtHand | None = None,
) -> BroughtBytes:
    """Put some files of a part below `target`. One that is on this machine already, the same to the last byte, is linked
    instead of copied. known: SHA-256 of files that were read before. Raises as `restore`."""
    life, _ = parse_manifest(manifest)
    try:
        for folder in {(target / file.path).parent for file in wanted}:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_made(target, error) from error

    def bring(file: ManifestFile) -> BroughtBytes:
        place = target / file.path
        if at_hand is not None and _linked(file, at_hand(file.path), place, limits.chunk_bytes, known):
            return BroughtBytes(linked_bytes=file.size_bytes)
        _bring(files, life, manifest, file, target)
        known.note_file(place, file.size_bytes, file.sha256)
        return BroughtBytes(bytes=file.size_bytes)

    with ThreadPoolExecutor(limits.parallel_files, thread_name_prefix="kcontrol-restore") as pool:
        copies = [pool.submit(bring, file) for file in wanted]
        try:
            return sum((copy.result() for copy in copies), BroughtBytes())
        except BaseException:
            for copy in copies:
                copy.cancel()
            raise


def _not_made(target: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{target} can't be made: {error}; free the disk or correct its rights")


def _linked(
    file: ManifestFile, candidates: Iterable[Path], target: Path, chunk_bytes: int, known: KnownDigests
) -> bool:
    """Whether one of the candidates is the file, and `target` a link to it. What is linked is looked at, so that it does
    not matter who replaces a candidate meanwhile."""
    for candidate in candidates:
        try:
            if candidate.stat().st_size != file.size_bytes:
                continue
            os.link(candidate, target)
        except OSError:  # gone meanwhile, or on another file system
            continue
        if known.read(target, key_of(target.stat()), chunk_bytes) == file.sha256:
            return True
        target.unlink()
    return False


def is_readable(files: Files, manifest: str) -> bool:
    """Whether the manifest is there and can be read, and every file is stored with its size."""
    parse_manifest(manifest)
    if not files.exists(manifest):
        return False
    try:
        read = read_manifest(files, manifest)
    except CheckpointDamagedError:
        return False
    return are_stored(files, manifest, read.files)


def are_stored(files: Files, manifest: str, wanted: Sequence[ManifestFile]) -> bool:
    """Whether these files of a part are stored with their sizes."""
    life, _ = parse_manifest(manifest)
    sizes = stored_sizes(files, life)
    return all(is_stored(file, sizes) for file in wanted)


def content(files: Files, manifest: str, file: ManifestFile) -> bytes:
    """What is in a small file of a part. Raises CheckpointDamagedError."""
    life, _ = parse_manifest(manifest)
    stored = f"{life.path}/{file.stored}"
    found = files.read(stored)
    told = None if found is None else (len(found), sha256(found).hexdigest())
    if found is None or told != (file.size_bytes, file.sha256):
        raise _damaged(files, stored, manifest, file, told)
    return found


def _bring(files: Files, life: LifeFolder, manifest: str, file: ManifestFile, target: Path) -> None:
    stored = f"{life.path}/{file.stored}"
    found = files.download(stored, target / file.path)
    if found != (file.size_bytes, file.sha256):
        raise _damaged(files, stored, manifest, file, found)


def _damaged(
    files: Files, stored: str, manifest: str, file: ManifestFile, found: tuple[int, str] | None
) -> CheckpointDamagedError:
    """found: size in bytes and SHA-256 of what is there; None: nothing is."""
    if found is None:
        what = "is missing"
    elif found[0] != file.size_bytes:
        what = f"is damaged: it has {found[0]} bytes instead of {file.size_bytes}"
    else:
        what = f"is damaged: its SHA-256 is {found[1]} instead of {file.sha256}"
    return CheckpointDamagedError(
        f"{files.where(stored)}, a file of the checkpoint part {manifest}, {what}; choose an older checkpoint"
    )
