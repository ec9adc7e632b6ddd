"""CheckpointStore: save, restore, look at and drop parts of checkpoints. Its calls block;
they may come from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from kcontrol.adapters.checkpoints import restoring, sweeping
from kcontrol.adapters.checkpoints.digests import READ_HERE, KnownDigests
from kcontrol.adapters.checkpoints.files import Files, never
from kcontrol.adapters.checkpoints.layout import LifeFolder, NodeFolder, incarnation_of
from kcontrol.adapters.checkpoints.limits import StoreLimits
from kcontrol.adapters.checkpoints.locations import Location, open_location
from kcontrol.adapters.checkpoints.manifests import read_manifest
from kcontrol.adapters.checkpoints.model import (
    NO_SHARDS,
    BroughtBytes,
    HeldShards,
    Manifest,
    ManifestFile,
    PartPlace,
    PartReceipt,
    StoredPart,
)
from kcontrol.adapters.checkpoints.restoring import AtHand
from kcontrol.adapters.checkpoints.saving import PartSave

_DEFAULT_LIMITS = StoreLimits()


class CheckpointStore:
    """Parts of checkpoints under any location.

    location: `file:///path`, an absolute path,
    `s3://bucket/path?region=...&endpoint_override=...&scheme=...`, `hdfs://host:port/path`. manifest: a
    part's name: the path of its manifest from the location. All methods raise ConfigurationError for a
    location that can't be one, CheckpointDamagedError for a part that is not there or not as it was written,
    and CheckpointError for everything else; each names location and file.
    """

    def __init__(self, limits: StoreLimits = _DEFAULT_LIMITS, known: KnownDigests = READ_HERE) -> None:
        """known: SHA-256 of files of this machine that were read already, by any store."""
        self._limits, self._known = limits, known
        self._locations: dict[str, Location] = {}
        self._lock = threading.Lock()
        self._saving = threading.Lock()

    def save(
        self,
        place: PartPlace,
        pinned: Path,
        cancelled: Callable[[], bool] = never,
        held: HeldShards = NO_SHARDS,
    ) -> PartReceipt:
        """Copy everything under `pinned` to the part's place, except what an earlier
        part of the same life has stored.

        A part that is there already, whole, is left as it is. One save at a time: others wait. `cancelled` is
        asked by several threads, before every operation and every `chunk_bytes`; it raises
        CheckpointCancelledError then. held: which files are of which shard, for the manifest to say.
        """
        with self._saving:
            saving = PartSave(
                self._files(place.location, cancelled), place, self._limits, self._known, cancelled, held
            )
            return saving.run(pinned)

    def restore(self, location: str, manifest: str, target: Path) -> Manifest:
        """Fill `target`, an empty directory or none, with the part's files; each one's size and SHA-256 are
        checked."""
        return restoring.restore(self._files(location), self._limits, manifest, target, self._known)

    def manifest(self, location: str, manifest: str) -> Manifest:
        """What a part holds."""
        return read_manifest(self._files(location), manifest)

    def content(self, location: str, manifest: str, file: ManifestFile) -> bytes:
        """What is in one of a part's small files; its size and SHA-256 are checked."""
        return restoring.content(self._files(location), manifest, file)

    def fetch(
        self,
        location: str,
        manifest: str,
        wanted: Sequence[ManifestFile],
        target: Path,
        at_hand: AtHand | None = None,
    ) -> BroughtBytes:
        """Put some of a part's files below `target`, as `restore` does.

        at_hand: by a file's path in the part, where on this machine the same file may be; if it is, with the same
        SHA-256, it is linked. So it must be one that nobody changes in place.
        """
        files = self._files(location)
        return restoring.fetch(files, self._limits, manifest, wanted, target, self._known, at_hand)

    def stored(self, location: str, manifest: str, wanted: Sequence[ManifestFile]) -> bool:
        """Whether these files of a part are there with their sizes."""
        return restoring.are_stored(self._files(location), manifest, wanted)

    def readable(self, location: str, manifest: str) -> bool:
        """Whether the part has a manifest and every file of it is stored with its size.
        Contents are checked by `restore`."""
        return restoring.is_readable(self._files(location), manifest)

    def drop(self, location: str, manifest: str) -> None:
        """Forget a part, if it is there, and delete what no other part refers to."""
        sweeping.drop(self._files(location), manifest)

    def sweep(self, location: str, pipeline: str, log_id: str, node: int, incarnation: int) -> None:
        """Delete what broken-off saves of this life and of older ones of the node have left. Parts stay.

        Older lives are taken for dead. One that is not can't finish its save afterwards.
        """
        sweeping.sweep(self._files(location), NodeFolder(pipeline, log_id, node), incarnation)

    def forget_log(self, location: str, pipeline: str, log_id: str) -> None:
        """Delete all parts of all nodes that were saved for one log of steps; nothing if there are none."""
        files = self._files(location)
        if log_id in files.folders(pipeline):
            files.delete_directory(f"{pipeline}/{log_id}")

    def parts(self, location: str, pipeline: str, log_id: str, node: int) -> tuple[StoredPart, ...]:
        """All parts of a node, of all its lives: newest step first, then newest claim and
        life. They are not looked into."""
        files, folder = self._files(location), NodeFolder(pipeline, log_id, node)
        found = [
            part
            for name in files.folders(folder.path)
            if (incarnation := incarnation_of(name)) is not None
            for file in files.sizes(f"{folder.path}/{name}/manifests")
            if (part := LifeFolder(folder, incarnation).part(file)) is not None
        ]
        return tuple(
            sorted(found, key=lambda part: (part.step, part.claim_epoch, part.incarnation), reverse=True)
        )

    def _files(self, location: str, cancelled: Callable[[], bool] = never) -> Files:
        with self._lock:
            if location not in self._locations:
                self._locations[location] = open_location(location, self._limits)
            return Files(self._locations[location], self._limits, cancelled)
