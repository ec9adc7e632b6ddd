"""Saves a node's parts of checkpoints, and deletes needless ones, beside the engine's line of work.

One part is saved at a time, and it ends before the next one is pinned. Deleting is tidying up: what fails is
logged, and tried again when the next checkpoint is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kcontrol.core.events import NodeEvent, PartSaved, SavePart
from kcontrol.core.model import Checkpoint
from kcontrol.errors import CheckpointError
from kcontrol.sessions.ports import Clock, Engine


class CheckpointParts:
    """The background work of one engine. `close` ends it."""

    def __init__(
        self, engine: Engine, clock: Clock, dispatch: Callable[[NodeEvent], None], log: logging.Logger
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._dispatch = dispatch
        self._log = log
        self._saving: asyncio.Task[None] | None = None
        self._dropping: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    def save(self, effect: SavePart) -> None:
        """Begin to save what is pinned; answered by one `PartSaved`, unless it is ended before."""
        self._saving = asyncio.create_task(self._save(effect))

    def drop(self, kept: Sequence[Checkpoint]) -> None:
        """Begin to delete what no kept checkpoint names."""
        task = asyncio.create_task(self._drop(kept))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    async def end_saving(self, within_s: float | None = None) -> None:
        """Give up what is being saved; returns when the engine does nothing for it any more. Raises CheckpointError when it
        does after `within_s`: where it is saved, something hangs."""
        saving = self._saving
        if saving is None:
            return
        if not saving.cancelling():
            saving.cancel()
        await asyncio.wait([saving], timeout=within_s)
        if not saving.done():
            assert within_s is not None
            raise CheckpointError(
                f"what was being saved before was given up, and has not ended within {within_s:g} s: the place of checkpoints "
                "does not answer"
            )
        self._saving = None

    async def close(self) -> None:
        """End everything."""
        await self.end_saving()
        for task in list(self._dropping):
            task.cancel()
        await asyncio.gather(*self._dropping, return_exceptions=True)

    async def _save(self, effect: SavePart) -> None:
        saved, error = None, ""
        try:
            saved = await self._engine.save(effect.step, effect.claim_epoch, effect.location)
        except Exception as problem:  # noqa: BLE001 - whatever storage raises costs this checkpoint, and is told to the coordinator
            error = str(problem) or type(problem).__name__
            self._log.warning(
                "saving step %d to %s: %s", effect.step, effect.location, error, exc_info=problem
            )
        self._dispatch(
            PartSaved(effect.claim_epoch, effect.command_serial, saved, error, self._clock.monotonic_ms())
        )

    async def _drop(self, kept: Sequence[Checkpoint]) -> None:
        async with self._turn:
            try:
                await self._engine.drop_parts(kept)
            except Exception:  # noqa: BLE001 - logged whole; files that stay cost space and nothing else
                self._log.warning(
                    "deleting the files of dropped checkpoints failed; they stay for now", exc_info=True
                )
