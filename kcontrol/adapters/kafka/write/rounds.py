"""Rounds of a writer that shares its partitions: it takes turns, sends what was waiting for them, gives them
back, all together, and only then takes others.

So it never waits for a turn while it holds one, and writers can't wait for each other in a circle. Lives in the
event loop; a thread of a pool waits for the answers.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kcontrol.adapters.kafka.write.backlog import Backlog
from kcontrol.adapters.kafka.write.progress import PartitionProgress
from kcontrol.adapters.kafka.write.turns import Turns, WriteTurn

_MOST_WAITING = 256
"""Writers of one process that wait for turns at once; more wait for a thread first."""


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="kcontrol-turns")


# The threads of a process that was forked are not there.
os.register_at_fork(after_in_child=_pool.cache_clear)


class Rounds:
    """One round after another, as long as anything waits.

    A turn that is out counts as a byte of the backlog: a writer has not finished before all are given back.
    dealt: is called when there are turns to send in.
    """

    def __init__(
        self,
        turns: Turns,
        partitions: Mapping[int, PartitionProgress],
        backlog: Backlog,
        dealt: Callable[[], None],
    ) -> None:
        self._turns, self._partitions = turns, partitions
        self._backlog, self._dealt = backlog, dealt
        self._held: tuple[int, ...] = ()
        self._asking = False

    @property
    def over(self) -> bool:
        """Whether the next round is to begin: nothing is left to send in this one, and something waits to be
        sent or given back."""
        if self._asking or any(self._partitions[number].allowed for number in self._held):
            return False
        return bool(self._held) or any(progress.waiting for progress in self._partitions.values())

    async def next(self) -> None:
        """Give back what is held and take turns for what waits. Raises as `Turns.take` does."""
        self._asking = True
        back = [self._turn(self._partitions[number]) for number in self._held]
        wanted = [number for number, progress in self._partitions.items() if progress.waiting]
        taken = await asyncio.get_running_loop().run_in_executor(_pool(), self._turns.take, back, wanted)
        self._backlog.grow(len(taken))
        self._backlog.done(len(back))
        for turn in taken:
            progress = self._partitions[turn.partition]
            progress.sequence, progress.end = turn.sequence, turn.end
            progress.allowed = len(progress.waiting)
        self._held = tuple(turn.partition for turn in taken)
        self._asking = False
        self._dealt()

    @staticmethod
    def _turn(progress: PartitionProgress) -> WriteTurn:
        return WriteTurn(progress.partition, progress.sequence, progress.end)
