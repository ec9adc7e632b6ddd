"""Which offsets of an input hold no record, seen in passing in what the fetches of a watcher bring.

Only a batch's header says how many records it has, and a broker gives headers with their records alone. So a
watcher takes what it waits for whole, as long as that is little: up to the input's `look_bytes_per_s`, which
the broker has in memory still. Of busier input it looks at a part, and what it has not looked at counts as
records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from kcontrol.core.model import Gap
from kcontrol.core.step.gaps import with_gap
from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches import Fetched
from kcontrol.wire.batches.visible import AbortedTransactions

MOST_GAPS = 64
"""That one report of an input names, over all partitions; with more, neighbours are merged.

A report may come several times a second from every node and is read by all of them: with a backlog of small
transactions 512 were half of what a pipeline of three nodes used of a processor."""
LEAST_GAPS = 4
"""Of each partition, however many there are."""
_BURST_BYTES = 1 << 20


class LookBudget:
    """How much the next fetch may bring; at least a byte, for which a broker gives a whole batch."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._left = float(_BURST_BYTES)
        self._at_s = time.monotonic()

    def allowed(self) -> int:
        """Bytes."""
        now_s = time.monotonic()
        self._left = min(_BURST_BYTES, self._left + (now_s - self._at_s) * self._bytes_per_s)
        self._at_s = now_s
        return max(1, int(self._left))

    def spend(self, size_bytes: int) -> None:
        """A fetch has brought so many."""
        self._left -= size_bytes


def more_gaps(
    known: tuple[Gap, ...],
    records: bytes | memoryview,
    aborted: AbortedTransactions,
    position: int,
    end: int,
    most: int,
) -> tuple[Gap, ...]:
    """The known gaps and those that a fetch from `position` on, which is committed up to `end`, has shown
    beyond them."""
    begin = max(position, known[-1].to) if known else position
    try:
        found = list(_gaps(Fetched(records, "input"), aborted, begin, end))
    except DamagedRecordError:
        return known  # the task that reads it says what is wrong with it
    for gap in found:
        known = with_gap(known, gap, most)
    return known


def _gaps(fetched: Fetched, aborted: AbortedTransactions, begin: int, end: int) -> Iterable[Gap]:
    position = begin
    for batch in fetched.visible(aborted):
        if batch.next_offset <= begin:
            continue
        if batch.base_offset >= end:
            break
        if position < batch.base_offset:
            yield Gap(position, batch.base_offset, batch.base_offset - position)
        holes = batch.next_offset - batch.base_offset - batch.records
        if holes:
            yield Gap(max(begin, batch.base_offset), batch.next_offset, holes)
        position = batch.next_offset
    looked = min(end, fetched.next_offset(begin))
    if position < looked:
        yield Gap(position, looked, looked - position)
