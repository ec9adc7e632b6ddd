"""Saving one part. The order of what is written makes every crash harmless:

1. a mark in `saving`, which keeps every sweep away from this life's data;
2. the files that no earlier part of this life has stored, under names that nobody has used or will use: what an earlier
   life has stored, the storage links or copies itself, so each life's directory stays whole by itself;
3. the manifest, in one atomic write: from here on the part exists;
4. the mark goes; had somebody taken it away, who took this life for dead, then the manifest goes instead.

Dead after 1 or 2: nothing refers to what was written, and it goes with a later sweep. Dead after 3: the part
is whole. The manifests of earlier parts are read after the mark was written, and a drop deletes the manifest
before it looks for marks: so either this save does not see the dropped part, or the drop sees the mark. A
sweep of a dead life takes the marks away before it reads the manifests: so either this save misses its mark,
or the sweep sees the manifest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kcontrol.adapters.checkpoints.digests import FileKey, KnownDigests, key_of
from kcontrol.adapters.checkpoints.files import Cancelled, Files
from kcontrol.adapters.checkpoints.layout import LifeFolder, life_of, save_name
from kcontrol.adapters.checkpoints.limits import StoreLimits
from kcontrol.adapters.checkpoints.manifests import (
    FormerPart,
    is_stored,
    manifests_of,
    newest_part_before,
    read_manifest,
    stored_files,
    stored_sizes,
)
from kcontrol.adapters.checkpoints.model import (
    NO_SHARDS,
    HeldShards,
    Manifest,
    ManifestFile,
    PartPlace,
    PartReceipt,
)
from kcontrol.errors import CheckpointDamagedError, CheckpointError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pinned:
    """One file of the pin. path: from the pin."""

    source: Path
    path: str
    key: FileKey

    @property
    def size_bytes(self) -> int:
        return self.key[2]


class PartSave:
    """One call of `CheckpointStore.save`."""

    def __init__(
        self,
        files: Files,
        place: PartPlace,
        limits: StoreLimits,
        known: KnownDigests,
        cancelled: Cancelled,
        held: HeldShards = NO_SHARDS,
    ) -> None:
        """known: SHA-256 of files that were read before. held: which of them are of which shard."""
        self._files, self._place, self._limits, self._known, self._cancelled = (
            files,
            place,
            limits,
            known,
            cancelled,
        )
        self._held = held
        self._shard_of = {path: number for number, each in enumerate(held.shards) for path in each.paths}
        self._life: LifeFolder = life_of(place)
        self._former: FormerPart | None = None
        self._by_digest: dict[tuple[str, int], ManifestFile] = {}
        """What earlier parts have stored, by SHA-256 and size."""
        self._taken_over: set[str] = set()
        """Paths of files that the storage had of an earlier life."""
        self._name = save_name(place)
        self._manifest = self._life.manifest(place.step, place.claim_epoch)
        self._mark = f"{self._life.saving}/{self._name}"
        self._publishing = False
        """Whether the manifest, if there is one, may be this save's."""

    def run(self, pinned: Path) -> PartReceipt:
        """Raises CheckpointError, and CheckpointCancelledError."""
        try:
            return self._run(list(_pinned_files(pinned)))
        except OSError as error:
            raise CheckpointError(f"the pin {pinned} can't be read: {error}") from error

    def _run(self, part: list[Pinned]) -> PartReceipt:
        self._clear_marks()
        try:
            self._files.publish(self._mark, b"")
            earlier, sizes = self._earlier()
            manifest = earlier.get(self._manifest)
            if manifest is None or not all(is_stored(file, sizes) for file in manifest.files):
                return self._copy_and_publish(part, earlier, sizes)
            self._files.delete(self._mark)
            return self._saved(manifest, 0)
        except BaseException:
            self._undo()
            raise

    def _copy_and_publish(
        self, part: list[Pinned], earlier: Mapping[str, Manifest], sizes: dict[str, int]
    ) -> PartReceipt:
        stored = stored_files(earlier.values(), sizes)
        self._by_digest = {(each.sha256, each.size_bytes): each for each in stored.values()}
        if not earlier:
            self._former = newest_part_before(self._files, self._life)
        with ThreadPoolExecutor(
            self._limits.parallel_files, thread_name_prefix="kcontrol-checkpoint"
        ) as pool:
            copies = [
                pool.submit(self._copied, file, stored.get((file.path, file.size_bytes))) for file in part
            ]
            try:
                files = tuple(copy.result() for copy in copies)
            except BaseException:
                for copy in copies:
                    copy.cancel()
                raise
        place, mine = self._place, self._stored("")
        self._files.settle_directories(
            f"{self._life.path}/{file.stored}" for file in files if file.stored.startswith(mine)
        )
        manifest = Manifest(
            pipeline=place.pipeline,
            log_id=place.log_id,
            node=place.node,
            incarnation=place.incarnation,
            claim_epoch=place.claim_epoch,
            step=place.step,
            files=files,
            cut=self._held.cut,
            shards=tuple(each.shard for each in self._held.shards),
        )
        self._publishing = True
        self._files.publish(self._manifest, manifest.to_json())
        if not self._files.exists(self._mark):
            raise CheckpointError(
                f"{self._files.where(self._manifest)} is given up: a newer life of node {place.node} has "
                "cleared away what this one had copied; this process is not the node any more"
            )
        copied_bytes = sum(
            file.size_bytes
            for file in files
            if file.stored.startswith(mine) and file.path not in self._taken_over
        )
        saved = self._saved(manifest, copied_bytes)
        self._files.delete(self._mark)
        return saved

    def _copied(self, file: Pinned, stored: ManifestFile | None) -> ManifestFile:
        """The file's line in the manifest, when it is stored: by an earlier part, or now."""
        shard = self._shard_of.get(file.path)
        stored = self._renamed(file) if stored is None else stored
        if stored is not None and self._digest(file) == stored.sha256:
            return stored.model_copy(update={"path": file.path, "shard": shard})
        path = self._stored(file.path)
        taken = self._take_over(file, path)
        if taken is not None:
            return taken.model_copy(update={"stored": path, "shard": shard})
        size_bytes, digest = self._files.upload(file.source, f"{self._life.path}/{path}")
        if size_bytes != file.size_bytes:
            raise CheckpointError(
                f"{file.source} was changed while it was copied: {file.size_bytes} bytes, then {size_bytes}"
            )
        self._known.note(file.key, digest)
        return ManifestFile(path=file.path, stored=path, size_bytes=size_bytes, sha256=digest, shard=shard)

    def _renamed(self, file: Pinned) -> ManifestFile | None:
        """The same file under another name, if it was read before: Spark gives a table of state a new one whenever the
        snapshot before was not copied yet."""
        digest = self._known.of(file.key)
        return None if digest is None else self._by_digest.get((digest, file.size_bytes))

    def _take_over(self, file: Pinned, path: str) -> ManifestFile | None:
        """Have the storage put the same file of an earlier life at `path`, if it is there. Who has that file deleted
        meanwhile harms nobody: it is copied from this machine then."""
        former = self._former
        stored = None if former is None else former.files.get((file.path, file.size_bytes))
        if former is None or stored is None or self._digest(file) != stored.sha256:
            return None
        if not self._files.copy_within(f"{former.life.path}/{stored.stored}", f"{self._life.path}/{path}"):
            self._former = None  # What the storage can't do for one it can't do for thousands.
            return None
        self._taken_over.add(file.path)
        return stored

    def _digest(self, file: Pinned) -> str:
        return self._known.read(file.source, file.key, self._limits.chunk_bytes, self._cancelled)

    def _earlier(self) -> tuple[dict[str, Manifest], dict[str, int]]:
        """This life's parts by path of their manifest, and what is stored of them. A
        part that is damaged is no help."""
        found = {}
        for manifest in manifests_of(self._files, self._life):
            try:
                found[manifest] = read_manifest(self._files, manifest)
            except CheckpointDamagedError as error:
                _log.warning("%s", error)
        return found, stored_sizes(self._files, self._life)

    def _clear_marks(self) -> None:
        """A life saves one part at a time, so older marks are of saves that failed and could not clean up."""
        for name in self._files.sizes(self._life.saving):
            self._files.delete(f"{self._life.saving}/{name}")

    def _undo(self) -> None:
        """As if it had not begun. In this order, so that there is never a manifest of files that are gone."""
        files = self._files.uncancelled()
        try:
            if self._publishing:
                files.delete(self._manifest)
            files.delete_directory(f"{self._life.path}/{self._stored('').rstrip('/')}")
            files.delete(self._mark)
        except CheckpointError as error:
            _log.warning("what a failed save has left goes with a later sweep: %s", error)

    def _stored(self, path: str) -> str:
        return f"data/{self._name}/{path}"

    def _saved(self, manifest: Manifest, copied_bytes: int) -> PartReceipt:
        sizes = (len(manifest.files), manifest.size_bytes, copied_bytes)
        return PartReceipt(self._place, self._manifest, *sizes, manifest.shard_bytes)


def _pinned_files(pinned: Path) -> Iterator[Pinned]:
    if not pinned.is_dir():
        raise CheckpointError(f"there is no pin {pinned}: pin the step before it is saved")
    for source in sorted(pinned.rglob("*")):
        if source.is_file():
            yield Pinned(source, source.relative_to(pinned).as_posix(), key_of(source.stat()))
