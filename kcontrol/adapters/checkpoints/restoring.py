"""Bringing a part back, or only looking whether that would work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kcontrol.adapters.checkpoints.files import Files
from kcontrol.adapters.checkpoints.layout import LifeFolder, parse_manifest
from kcontrol.adapters.checkpoints.limits import StoreLimits
from kcontrol.adapters.checkpoints.manifests import is_stored, read_manifest, stored_sizes
from kcontrol.adapters.checkpoints.model import Manifest, ManifestFile
from kcontrol.errors import CheckpointDamagedError, CheckpointError


def restore(files: Files, limits: StoreLimits, manifest: str, target: Path) -> Manifest:
    """Fill `target`, which must be empty or not there. Raises CheckpointDamagedError naming
    the file that is not as it was."""
    life, _ = parse_manifest(manifest)
    read = read_manifest(files, manifest)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise CheckpointError(
                f"{target} is not empty: a checkpoint's part is only restored into an empty directory"
            )
        for folder in {(target / file.path).parent for file in read.files}:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"{target} can't be made: {error}; free the disk or correct its rights"
        ) from error
    with ThreadPoolExecutor(limits.parallel_files, thread_name_prefix="kcontrol-restore") as pool:
        copies = [pool.submit(_bring, files, life, manifest, file, target) for file in read.files]
        try:
            for copy in copies:
                copy.result()
        except BaseException:
            for copy in copies:
                copy.cancel()
            raise
    return read


def is_readable(files: Files, manifest: str) -> bool:
    """Whether the manifest is there and can be read, and every file is stored with its size."""
    life, _ = parse_manifest(manifest)
    if not files.exists(manifest):
        return False
    try:
        read = read_manifest(files, manifest)
    except CheckpointDamagedError:
        return False
    sizes = stored_sizes(files, life)
    return all(is_stored(file, sizes) for file in read.files)


def _bring(files: Files, life: LifeFolder, manifest: str, file: ManifestFile, target: Path) -> None:
    stored = f"{life.path}/{file.stored}"
    found = files.download(stored, target / file.path)
    if found == (file.size_bytes, file.sha256):
        return
    if found is None:
        what = "is missing"
    elif found[0] != file.size_bytes:
        what = f"is damaged: it has {found[0]} bytes instead of {file.size_bytes}"
    else:
        what = f"is damaged: its SHA-256 is {found[1]} instead of {file.sha256}"
    raise CheckpointDamagedError(
        f"{files.where(stored)}, a file of the checkpoint part {manifest}, {what}; choose an older checkpoint"
    )
