"""The digest of rows on their way from node to node: the same however they were ordered, packed and cut.

Each row brings two 64-bit hashes, which Spark computes of its columns with two different leading constants; the digest is the
sum of each, modulo 2**64. Unlike the digests of records (`kcontrol.wire.digest`), neither sum carries into the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches.columns import Ints, Longs

_MODULUS = 1 << 64
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class RowsDigest:
    """`rows` of them, whose hashes add up to `first` and `second` (each 0 to 2**64 - 1)."""

    rows: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: RowsDigest) -> RowsDigest:
        """The digest of both sets of rows together."""
        return RowsDigest(
            self.rows + other.rows,
            (self.first + other.first) % _MODULUS,
            (self.second + other.second) % _MODULUS,
        )

    @property
    def hex(self) -> str:
        """Both sums as 32 lower-case hexadecimal digits, as an ExchangeRun holds them."""
        return f"{self.first:016x}{self.second:016x}"

    @staticmethod
    def parsed(rows: int, digits: str) -> RowsDigest:
        """The inverse of `hex`. Raises DamagedRecordError."""
        try:
            if len(digits) != _DIGITS:
                raise ValueError
            number = int(digits, 16)
        except ValueError as error:
            raise DamagedRecordError(
                f"{digits!r} is not the digest of an exchange: it has 32 hexadecimal digits"
            ) from error
        return RowsDigest(rows, number >> 64, number % _MODULUS)

    @staticmethod
    def of(first: Longs, second: Longs) -> RowsDigest:
        """Of rows with these hashes, one of each a row."""
        return RowsDigest(len(first), _sum(first), _sum(second))


NO_ROWS = RowsDigest()
"""The digest of none."""


def added(digests: Iterable[RowsDigest]) -> RowsDigest:
    """The digest of all rows together."""
    return sum(digests, NO_ROWS)


def by_node(nodes_of_rows: Ints, first: Longs, second: Longs) -> dict[int, RowsDigest]:
    """Of the rows for each node that has any; for each row its node and its two hashes."""
    if not len(nodes_of_rows) == len(first) == len(second):
        raise ValueError(
            f"{len(nodes_of_rows)} rows need as many hashes of each kind, not {len(first)} and {len(second)}"
        )
    found = {}
    for node in np.unique(nodes_of_rows).tolist():
        chosen = nodes_of_rows == node
        found[node] = RowsDigest.of(first[chosen], second[chosen])
    return found


def _sum(hashes: Longs) -> int:
    return int(hashes.view(np.uint64).sum(dtype=np.uint64))
