"""What a read of ranges gives, wherever its rows come from: batches in order, and the digest of each range so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kcontrol.wire.digest import EMPTY, Digest

RowsOfRanges = tuple[pa.RecordBatch, Sequence[tuple[int, Digest]]]
"""Rows, and of each range that some of them are of: which it is, and the digest of those."""


class RangeRead(Iterator[pa.RecordBatch]):
    """The batches of some ranges, one range after the other, to be iterated once. `digests`: of each range
    that was begun, of what has been returned so far; all of it at the end."""

    def __init__(self, batches: Iterator[RowsOfRanges], ranges: int) -> None:
        self._batches = batches
        self.digests: list[Digest] = [EMPTY] * ranges

    @property
    def digest(self) -> Digest:
        """Of all ranges together."""
        return sum(self.digests, EMPTY)

    @property
    def records(self) -> int:
        return self.digest.records

    def __next__(self) -> pa.RecordBatch:
        rows, digests = next(self._batches)
        for index, digest in digests:
            self.digests[index] += digest
        return rows
