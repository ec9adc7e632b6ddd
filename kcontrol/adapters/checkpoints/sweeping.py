"""Dropping a part, and clearing away what nothing refers to.

A sweep lists the data first, then looks for marks of saves under way, then reads the manifests. A save that
marks itself later copies under names that are not in the list, and one that has taken its mark away has its
manifest among those that are read. Only the life's own directory is ever touched, so saves of other nodes and
of newer lives can't be hit.
"""

from __future__ import annotations

import logging

from kcontrol.adapters.checkpoints.files import Files
from kcontrol.adapters.checkpoints.layout import LifeFolder, NodeFolder, incarnation_of, parse_manifest
from kcontrol.adapters.checkpoints.manifests import manifests_of, read_manifest, stored_sizes
from kcontrol.errors import CheckpointDamagedError

_log = logging.getLogger(__name__)


def drop(files: Files, manifest: str) -> None:
    """The part is gone; what no other part of its life refers to goes too, unless the life is just saving
    another."""
    life, _ = parse_manifest(manifest)
    files.delete(manifest)
    _sweep_life(files, life)


def sweep(files: Files, node: NodeFolder, incarnation: int) -> None:
    """Clear leftovers of `incarnation` and of older lives, which are dead: their saves that never ended don't
    count."""
    for name in files.folders(node.path):
        number = incarnation_of(name)
        if number is None or number > incarnation:
            continue
        life = LifeFolder(node, number)
        if number < incarnation:
            for mark in files.sizes(life.saving):
                files.delete(f"{life.saving}/{mark}")
        _sweep_life(files, life)
        if number < incarnation and not files.sizes(life.path):
            files.delete_directory(life.path)


def _sweep_life(files: Files, life: LifeFolder) -> None:
    stored = stored_sizes(files, life)
    leftovers = [name for name in files.sizes(life.manifests) if life.part(name) is None]
    if files.sizes(life.saving):
        return
    referred = set()
    for manifest in manifests_of(files, life):
        try:
            referred |= {file.stored for file in read_manifest(files, manifest).files}
        except CheckpointDamagedError as error:
            _log.warning(
                "nothing is swept in %s, because one of its parts can't be read: %s",
                files.where(life.path),
                error,
            )
            return
    for path in sorted(set(stored) - referred):
        files.delete(f"{life.path}/{path}")
    for name in leftovers:
        files.delete(f"{life.manifests}/{name}")
    folders = {path.split("/")[1] for path in stored} - {path.split("/")[1] for path in referred}
    for folder in sorted(folders):
        files.delete_directory(f"{life.data}/{folder}")
