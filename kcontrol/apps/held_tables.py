"""Tables of state are left as they are while a checkpoint of much of it is copied for another layout.

Between the checkpoint that is copied and the last step before the change RocksDB would merge them, and write most of them
anew: all of it would be saved and copied once more, and the second time no steps are made. Unmerged, the last step's checkpoint
is the one that was copied and what has been added since. Reading them takes longer the more there are, so it is for some
steps only, and from one look to the next. And shortly before the last step, again and again, the next version of each store is
to be a snapshot, because what comes after one is run through again, change by change, by whoever opens the state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from kcontrol.apps.warm_up import can_be_opened_twice
from kcontrol.core.log.steps_view import StepsView

MOST_STEPS = 400
"""For one request: a store has a new table every ten steps, and with each snapshot."""
AGAIN_S, HOLD_MS = 2.0, 10_000
WAITED_PARTS = 10
"""Whoever has waited for long may wait for longer: a snapshot in each such part of the time that was waited so far. So there
are some 30 in three minutes: RocksDB takes no write while a store that it merges has 36 tables that were never merged."""


@dataclass(frozen=True)
class TableCare:
    """What can be asked for of the state that is open here. hold: given ms, no tables are merged for so long.
    take_snapshots: of the next version. Both block. links: whether state is opened
    without being copied, however much there is."""

    hold: Callable[[int], object]
    take_snapshots: Callable[[], object]
    links: Callable[[], bool] = lambda: False


class HeldTables:
    """Of one process. Used by one event loop."""

    def __init__(self, care: TableCare | None, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """care: None: this process has no state."""
        self._care, self._monotonic_s = care, monotonic_s
        self._request_id, self._from_step, self._last_s = "", 0, float("-inf")
        self._ready_s: float | None = None
        """Since when this process only waits for others."""
        self._snapshot_s = 0.0
        self._asking: asyncio.Task[None] | None = None

    def look(self, request_id: str, steps: StepsView, *, is_ready: bool) -> None:
        """While a change is asked for: again and again. is_ready: this process only waits for others."""
        care = self._care
        if care is None or (steps.saved and can_be_opened_twice(steps.saved[-1])):
            return
        if request_id != self._request_id:
            self._request_id, self._from_step, self._last_s = request_id, steps.step, float("-inf")
            self._ready_s = None
        now_s = self._monotonic_s()
        is_asking = self._asking is not None and not self._asking.done()
        if is_asking or now_s - self._last_s < AGAIN_S or steps.step - self._from_step > MOST_STEPS:
            return
        self._last_s = now_s
        self._asking = asyncio.create_task(self._ask(care, snapshots=is_ready and self._is_due(now_s)))

    def _is_due(self, now_s: float) -> bool:
        """Whether the next version is to be a snapshot."""
        if self._ready_s is None:
            self._ready_s = now_s
        elif now_s - self._snapshot_s < (now_s - self._ready_s) / WAITED_PARTS:
            return False
        self._snapshot_s = now_s
        return True

    async def _ask(self, care: TableCare, *, snapshots: bool) -> None:
        await asyncio.to_thread(care.hold, HOLD_MS)
        if snapshots:
            await asyncio.to_thread(care.take_snapshots)
