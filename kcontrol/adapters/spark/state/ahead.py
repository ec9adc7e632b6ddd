"""State that a node is to have after a change of the layout, copied while others still have it.

What is copied lies beside the node's directories, by its path in a part of a checkpoint. Whoever opens a checkpoint looks
there for files with the same SHA-256 (`WorkDir.at_hand`), so nothing rests on a copy being right, whole, or new.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.spark.state.assembling import PartsOfNodes, QueryNeeds, Taker
from kcontrol.adapters.spark.state.workdir import AHEAD, WorkDir
from kcontrol.core.model import Checkpoint
from kcontrol.core.step.assignment import saved_owners
from kcontrol.errors import CheckpointCancelledError

_log = logging.getLogger(__name__)

_COUNT = itertools.count()
"""Of this process, so that no two copies are made in one place."""


class AheadCopy:
    """Of one node that is to be. root: as of WorkDir. own: where nodes of this machine have their own checkpoints. Used by
    one thread at a time; `copied_bytes` and `give_up` by any."""

    def __init__(
        self,
        root: Path,
        pipeline: str,
        taker: Taker,
        queries: Mapping[str, QueryNeeds],
        own: Path,
        *,
        whole: bool = False,
    ) -> None:
        """whole: another process is the node now, so that it has nothing yet."""
        self._home = ahead_home(root, pipeline, taker.node)
        self._queries, self._taker, self._own, self._whole = queries, taker, own, whole
        self._at_hand = WorkDir(root, pipeline, taker.node, 0, (), 0)
        self._target: Path | None = None
        self._number = next(_COUNT)
        self._ending, self._is_given_up = threading.Lock(), False
        self.step = 0
        """The checkpoint of which all is there."""
        self.total_bytes = -1
        """That others have of the newest checkpoint that was looked at; -1: none was."""
        self.linked_bytes = 0
        """Of these, what was on this machine before any of it was copied."""
        self._fetched_bytes = 0

    def copied_bytes(self) -> int:
        """Of that, so far."""
        target = self._target
        if target is None:
            return 0
        found = 0
        for folder, _, names in os.walk(target):
            for name in names:
                # It may be renamed meanwhile.
                with suppress(OSError):
                    found += Path(folder, name).stat().st_size
        return min(found, max(self.total_bytes, 0))

    def give_up(self) -> None:
        """Nobody wants it any more. A thread that copies ends with the next file, and until then leaves alone what others
        have copied or are copying: a thread can't be cancelled."""
        with self._ending:
            self._is_given_up = True

    def copy(self, checkpoint: Checkpoint) -> None:
        """All that the node lacks of a checkpoint; what was copied of others is linked where it is the same, and then goes.

        Raises CheckpointError: it can't be read, or was dropped meanwhile; CheckpointCancelledError: it was given up.
        """
        step = checkpoint.step
        parts = PartsOfNodes(
            CheckpointStore(),
            placed(checkpoint.location, self._own),
            step,
            {part.node: part.manifest for part in checkpoint.parts},
            saved_owners(checkpoint, len(self._taker.owner)),
        )
        moved = parts.moved(self._queries, self._taker, whole=self._whole)
        self.total_bytes = sum(file.size_bytes for files in moved.values() for file in files)
        target = self._home / f"step-{step}"
        staging = self._home / f".step-{step}.{os.getpid()}-{self._number}"
        shutil.rmtree(staging, ignore_errors=True)
        self._target = staging
        at_hand = self._at_hand.at_hand()

        def unless_given_up(path: str) -> Iterable[Path]:
            self._check_wanted()
            return at_hand(path)

        try:
            staging.mkdir(parents=True)
            brought = parts.bring_moved(moved, staging, unless_given_up)
            with self._ending:
                self._check_wanted()
                shutil.rmtree(target, ignore_errors=True)
                staging.rename(target)
                others = [other for other in self._home.iterdir() if other != target]
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        self._target, self.step = target, step
        # What is linked from an earlier copy was copied all the same.
        self._fetched_bytes += brought.bytes
        self.linked_bytes = max(0, self.total_bytes - self._fetched_bytes)
        _log.info(
            "node %d has, for a new layout, what others have of the checkpoint of step %d; %d bytes were copied, %d were on "
            "this host",
            *(self._taker.node, step, brought.bytes, brought.linked_bytes),
        )
        for other in others:
            shutil.rmtree(other, ignore_errors=True)

    def _check_wanted(self) -> None:
        if self._is_given_up:
            raise CheckpointCancelledError("copying state for another layout was given up")


def ahead_home(root: Path, pipeline: str, node: int) -> Path:
    """Where it is put for a node, by the step of the checkpoint. root: as of WorkDir."""
    return root / pipeline / f"node-{node}" / AHEAD


def forget_ahead(root: Path, pipeline: str, node: int) -> None:
    """What a node has copied, or whoever was to be it."""
    shutil.rmtree(ahead_home(root, pipeline, node), ignore_errors=True)
