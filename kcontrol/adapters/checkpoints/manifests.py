"""Reading manifests, and whether what they tell of is there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from kcontrol.adapters.checkpoints.files import Files
from kcontrol.adapters.checkpoints.layout import LifeFolder, incarnation_of, parse_manifest
from kcontrol.adapters.checkpoints.model import Manifest, ManifestFile
from kcontrol.errors import CheckpointDamagedError

_log = logging.getLogger(__name__)

_ADVICE = "choose an older checkpoint"


def read_manifest(files: Files, manifest: str) -> Manifest:
    """Raises CheckpointDamagedError: it is not there, damaged, or of another part than its path says."""
    life, part = parse_manifest(manifest)
    content = files.read(manifest)
    if content is None:
        raise CheckpointDamagedError(f"there is no checkpoint part {files.where(manifest)}; {_ADVICE}")
    try:
        read = Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        raise CheckpointDamagedError(
            f"the manifest {files.where(manifest)} is damaged or of a newer kcontrol: {where}: "
            f"{first['msg']}; {_ADVICE}"
        ) from error
    told = (read.pipeline, read.log_id, read.node, read.incarnation, read.claim_epoch, read.step)
    named = (life.node.pipeline, life.node.log_id, part.node, part.incarnation, part.claim_epoch, part.step)
    if told != named:
        raise CheckpointDamagedError(
            f"the manifest {files.where(manifest)} is of another part, {told}; {_ADVICE}"
        )
    return read


def manifests_of(files: Files, life: LifeFolder) -> list[str]:
    """Paths of the manifests of a life."""
    parts = (life.part(name) for name in sorted(files.sizes(life.manifests)))
    return [part.manifest for part in parts if part is not None]


def stored_sizes(files: Files, life: LifeFolder) -> dict[str, int]:
    """Sizes in bytes of everything that a life has stored, by path from the life's directory."""
    return {f"data/{path}": size_bytes for path, size_bytes in files.sizes(life.data).items()}


def is_stored(file: ManifestFile, sizes: dict[str, int]) -> bool:
    return sizes.get(file.stored) == file.size_bytes


def stored_files(manifests: Iterable[Manifest], sizes: dict[str, int]) -> dict[tuple[str, int], ManifestFile]:
    """The files of some parts of a life that are there, by path and size."""
    return {
        (file.path, file.size_bytes): file
        for manifest in manifests
        for file in manifest.files
        if is_stored(file, sizes)
    }


@dataclass(frozen=True, slots=True)
class FormerPart:
    """What an earlier life of a node has stored. files: by path and size, those that are there."""

    life: LifeFolder
    files: Mapping[tuple[str, int], ManifestFile]


def newest_part_before(files: Files, life: LifeFolder) -> FormerPart | None:
    """The newest part that can be read of the newest life before this one; None: there is none.

    It may be dropped at any time by a process of that life, or of another one.
    """
    numbers = (incarnation_of(name) for name in files.folders(life.node.path))
    for number in sorted((each for each in numbers if each is not None), reverse=True):
        if number >= life.incarnation:
            continue
        former = LifeFolder(life.node, number)
        parts = (former.part(name) for name in files.sizes(former.manifests))
        for part in sorted((each for each in parts if each), key=lambda each: each.step, reverse=True):
            try:
                found = read_manifest(files, part.manifest)
            except CheckpointDamagedError as error:
                _log.warning("%s", error)
                continue
            return FormerPart(former, stored_files([found], stored_sizes(files, former)))
    return None
