"""A node's parts of checkpoints: what the engine holds fast, saves, finds again and drops.

Joins the node's directory (`workdir`) to the store (`kcontrol.adapters.checkpoints`). Nothing here waits for
Spark: saving and dropping run in threads of their own while steps go on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace, PartReceipt
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.spark.state.assembling import Assembled, PartsOfNodes, QueryNeeds, Taker
from kcontrol.adapters.spark.state.holding import held_shards
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import Checkpoint, SavedFiles, ShardSize
from kcontrol.core.step.assignment import Owners, saved_owners
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
        needs: Mapping[str, QueryNeeds] = MappingProxyType({}),
        owner: Owners = (0,),
    ) -> None:
        """needs: by name of the queries whose batches Spark records. owner: of each shard."""
        self._store, self._workdir, self._own = store, workdir, own
        self._needs, self._taker = needs, Taker(node, owner)
        self._pipeline, self._log_id, self._node, self._incarnation = pipeline, log_id, node, incarnation
        self._locations = {location} - {""}
        """Where parts of this node may be: also where an earlier definition put those that the log still
        names."""
        self._pinned: tuple[int, Path] | None = None

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        """Steps of those checkpoints of which everything is there and can be read that this node needs."""
        saved = [each for each in checkpoints if each.parts]
        self._locations |= {each.location for each in saved}
        return await asyncio.to_thread(lambda: tuple(each.step for each in saved if self._is_readable(each)))

    def restore(self, checkpoint: Checkpoint, begin: Callable[[str, Path], None]) -> None:
        """Fill the node's directory: from its part, and with the shards that others owned then from theirs. `begin` makes
        an empty directory one that Spark opens after the step; it is called for queries that nobody ran then.

        Raises CheckpointError: something is missing, damaged, or of other queries.
        """
        parts, at_hand = self._parts_of(checkpoint), self._workdir.at_hand()
        total = Assembled()

        def fill(directory: Path) -> None:
            nonlocal total
            for query, needs in self._needs.items():
                assembled = parts.bring(query, needs, self._taker, directory, at_hand)
                if assembled is None:
                    (directory / query).mkdir()
                    begin(query, directory / query)
                else:
                    total += assembled

        self._workdir.begin_with(checkpoint.step, fill)
        _log.info(
            "node %d has the checkpoint of step %d: state of %d bytes that it had and %d that others had; %d bytes were "
            "copied, %d were on this host",
            *(self._node, checkpoint.step, total.kept_bytes, total.moved_bytes),
            *(total.fetched.bytes, total.fetched.linked_bytes),
        )

    def _parts_of(self, checkpoint: Checkpoint) -> PartsOfNodes:
        return PartsOfNodes(
            self._store,
            placed(checkpoint.location, self._own),
            checkpoint.step,
            {part.node: part.manifest for part in checkpoint.parts},
            saved_owners(checkpoint, len(self._taker.owner)),
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
        cancelled, pinned = threading.Event(), self._pinned[1]
        cut = [query for query, needs in self._needs.items() if needs.cut]

        def copy() -> PartReceipt:
            return self._store.save(place, pinned, cancelled.is_set, held_shards(pinned, step, cut))

        copying = asyncio.ensure_future(asyncio.to_thread(copy))
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
        shards = tuple(ShardSize(shard, size) for shard, size in sorted(saved.shard_bytes.items()))
        return SavedFiles(saved.manifest, saved.files, saved.size_bytes, shards)

    async def drop(self, kept: Sequence[Checkpoint]) -> None:
        """Delete the node's parts of steps up to the newest kept checkpoint that no kept one names, and what
        broken-off saves have left. Nothing of a newer life: this process may be a zombie, and what was made of its parts
        may count (decision 083). Raises CheckpointError."""
        if kept:
            self._locations |= {each.location for each in kept if each.parts}
            named = {part.manifest for each in kept if (part := each.part_of(self._node)) is not None}
            await asyncio.to_thread(self._drop, max(each.step for each in kept), named)

    def _drop(self, newest: int, named: set[str]) -> None:
        for location in (placed(each, self._own) for each in self._locations):
            for part in self._store.parts(location, self._pipeline, self._log_id, self._node):
                newer = part.incarnation > self._incarnation
                if part.step <= newest and part.manifest not in named and not newer:
                    self._store.drop(location, part.manifest)
            self._store.sweep(location, self._pipeline, self._log_id, self._node, self._incarnation)

    def _is_readable(self, checkpoint: Checkpoint) -> bool:
        try:
            return self._parts_of(checkpoint).readable(self._needs, self._taker)
        except KcontrolError as error:
            _log.warning("the checkpoint of step %d can't be used: %s", checkpoint.step, error)
            return False
