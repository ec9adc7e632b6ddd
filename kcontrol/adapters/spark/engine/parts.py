"""A node's parts of checkpoints: what the engine holds fast, saves, finds again and drops.

Joins the node's directory (`workdir`) to the store (`kcontrol.adapters.checkpoints`). Nothing here waits for
Spark: saving and dropping run in threads of their own while steps go on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import Checkpoint, SavedFiles
from kcontrol.errors import CheckpointError, KcontrolError

_log = logging.getLogger(__name__)


class NodeParts:
    """Of one incarnation of one node. location: where the definition puts checkpoints; empty for nowhere.
    own: the directory that is meant where a location says that each node has its own."""

    def __init__(
        self,
        store: CheckpointStore,
        workdir: WorkDir,
        location: str,
        pipeline: str,
        log_id: str,
        node: int,
        incarnation: int,
        own: Path | None = None,
    ) -> None:
        self._store, self._workdir, self._own = store, workdir, own
        self._pipeline, self._log_id, self._node, self._incarnation = pipeline, log_id, node, incarnation
        self._locations = {location} - {""}
        """Where parts of this node may be: also where an earlier definition put those that the log still
        names."""
        self._pinned: tuple[int, Path] | None = None

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        """Steps of those checkpoints of which this node's part is there and can be read."""
        self._locations |= {each.location for each in checkpoints}
        own = [each for each in checkpoints if each.part_of(self._node) is not None]
        return await asyncio.to_thread(lambda: tuple(each.step for each in own if self._is_readable(each)))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Fill the node's directory from its part. Raises CheckpointError: it is
        missing, damaged, or of other queries."""
        self._workdir.restore_from(
            self._store, placed(checkpoint.location, self._own), self._manifest(checkpoint)
        )

    def pin(self, step: int) -> None:
        """Hold fast what the step needs, instead of what was pinned before. Raises CheckpointError."""
        if self._pinned is not None:
            self._workdir.unpin(self._pinned[0])
        self._pinned = (step, self._workdir.pin(step))

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        """Copy the pin to the location, then let go of it. When cancelled, it returns after the copying has
        ended.

        Raises CheckpointError.
        """
        if self._pinned is None or self._pinned[0] != step:
            raise CheckpointError(f"step {step} is not held fast, so it can't be saved to {location}")
        place = PartPlace(
            placed(location, self._own),
            self._pipeline,
            self._log_id,
            self._node,
            self._incarnation,
            claim_epoch,
            step,
        )
        cancelled = threading.Event()
        copying = asyncio.ensure_future(
            asyncio.to_thread(self._store.save, place, self._pinned[1], cancelled.is_set)
        )
        try:
            saved = await asyncio.shield(copying)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([copying])
            copying.exception()
            raise
        finally:
            self._workdir.unpin(step)
            self._pinned = None
        return SavedFiles(saved.manifest, saved.files, saved.size_bytes)

    async def drop(self, kept: Sequence[Checkpoint]) -> None:
        """Delete the node's parts of steps up to the newest kept checkpoint that no kept one names, and what
        broken-off saves have left. Raises CheckpointError."""
        if kept:
            self._locations |= {each.location for each in kept}
            named = {part.manifest for each in kept if (part := each.part_of(self._node)) is not None}
            await asyncio.to_thread(self._drop, max(each.step for each in kept), named)

    def _drop(self, newest: int, named: set[str]) -> None:
        for location in (placed(each, self._own) for each in self._locations):
            for part in self._store.parts(location, self._pipeline, self._log_id, self._node):
                if part.step <= newest and part.manifest not in named:
                    self._store.drop(location, part.manifest)
            self._store.sweep(location, self._pipeline, self._log_id, self._node, self._incarnation)

    def _is_readable(self, checkpoint: Checkpoint) -> bool:
        try:
            return self._store.readable(placed(checkpoint.location, self._own), self._manifest(checkpoint))
        except KcontrolError as error:
            _log.warning("the checkpoint of step %d can't be used: %s", checkpoint.step, error)
            return False

    def _manifest(self, checkpoint: Checkpoint) -> str:
        part = checkpoint.part_of(self._node)
        if part is None:
            raise CheckpointError(
                f"the checkpoint of step {checkpoint.step} has no part of node {self._node}"
            )
        return part.manifest
