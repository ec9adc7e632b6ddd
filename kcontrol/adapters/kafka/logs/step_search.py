"""Finds places in a steps topic without reading all of it.

Keys are enough: boundaries lie in the order of their steps, and what was dropped leaves a gap at the
beginning and nothing else. From the end backwards, in windows that grow, for the newest checkpoint; by
halving, for a step.
"""

from __future__ import annotations

from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.core.log.keys import numbered

FIRST_WINDOW = 1_024
"""Offsets, of which each step takes two: its boundary's and its transaction's marker."""
WINDOW_GROWTH = 4
NEAR_ENOUGH = 256
"""Offsets before a step that are rather read than halved once more."""

_CHECKPOINT = b"checkpoint/"
_STEP = b"step/"


async def newest_checkpoint(reader: PartitionReader) -> RawRecord | None:
    """The last checkpoint in the topic, which is never one that was dropped; None if there is none."""
    high, window = await reader.end(), FIRST_WINDOW
    while high > 0:
        low = max(0, high - window)
        for record in reversed(await reader.read_between(low, high)):
            if record.value is not None and (record.key or b"").startswith(_CHECKPOINT):
                return record
        high, window = low, window * WINDOW_GROWTH
    return None


async def offset_before(reader: PartitionReader, step: int) -> int:
    """An offset at or not far before the boundary of `step`; 0 if all steps that are left are later."""
    low, high = 0, await reader.end()
    while high - low > NEAR_ENOUGH:
        middle = (low + high) // 2
        found = await _first_step(reader, middle, high)
        if found is None or found > step:
            high = middle
        else:
            low = middle
    return low


async def _first_step(reader: PartitionReader, begin: int, end: int) -> int | None:
    """The number of the first step whose boundary is at `begin` or later, before `end`."""
    while begin < end:
        records, begin = await reader.read_some(begin)
        for record in records:
            if record.value is not None and (record.key or b"").startswith(_STEP):
                return numbered((record.key or b"").decode())[1]
    return None
