"""How many bytes to ask for, so that a small range of a long backlog does not bring megabytes that nobody
wants.

A broker gives as much as it is asked for, past the end of the range too, and a task would check all of it.
What a topic's last fetches held tells what its next range will need; too small a guess costs one more fetch,
never a record.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.wire.batches import Batch

SMALLEST_FETCH_BYTES = 64 << 10
_FIRST_BYTES_PER_OFFSET = 1_024.0
_FIRST_BATCH_BYTES = 64 << 10
_FORGETTING = 0.5
"""What was seen before counts for at most this part of itself after each fetch."""


class FetchSize:
    """Of one topic, learned from its fetches."""

    def __init__(self) -> None:
        self._bytes_per_offset = _FIRST_BYTES_PER_OFFSET
        self._batch_bytes = _FIRST_BATCH_BYTES

    def for_offsets(self, offsets: int, most_bytes: int) -> int:
        """Bytes that hold so many offsets, with half a batch before and half a batch
        after them; at most `most_bytes`."""
        wanted = int(offsets * self._bytes_per_offset) + self._batch_bytes
        return min(most_bytes, max(SMALLEST_FETCH_BYTES, wanted))

    def learn(self, batches: Sequence[Batch]) -> None:
        """From the whole batches of one fetch, in order."""
        if batches:
            offsets = batches[-1].next_offset - batches[0].base_offset
            held = (batches[-1].end - batches[0].start) / max(1, offsets)
            largest = max(batch.end - batch.start for batch in batches)
            self._bytes_per_offset = max(held, self._bytes_per_offset * _FORGETTING)
            self._batch_bytes = max(largest, int(self._batch_bytes * _FORGETTING))

    def learn_of_larger(self, batch_bytes: int) -> None:
        """There is a batch of so many bytes, more than were asked for."""
        self._batch_bytes = max(self._batch_bytes, batch_bytes)
