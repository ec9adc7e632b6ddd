"""The digest of rows on their way from node to node: the same however they were ordered, packed and cut.

Each row brings two 64-bit hashes, which Spark computes of its columns with two different leading constants; the digest is the
sum of each, modulo 2**64. Unlike the digests of records (`kcontrol.wire.digest`), neither sum carries into the other.

Of rows with nested columns there are two such pairs: a plain one, as all versions of kcontrol compute it, which can't tell
some rows apart, and an exact one. It is written between the halves of the plain one, so that who knows of that alone reads the
plain digest: as 64 bits each, the first 16 digits and, modulo 2**64, all that follow (decision 189).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches.columns import Ints, Longs

_MODULUS = 1 << 64
_DIGITS = 32
_DIGITS_EXACT = 64

Exact = tuple[Longs, Longs] | None
"""The exact hashes of rows, one of each a row; None: of rows without nested columns, or by an older kcontrol."""


@dataclass(frozen=True, slots=True)
class RowsDigest:
    """`rows` of them, whose hashes add up to `first` and `second` (each 0 to 2**64 - 1). exact: the same of their exact
    hashes, if all of them have such."""

    rows: int = 0
    first: int = 0
    second: int = 0
    exact: tuple[int, int] | None = None

    def __add__(self, other: RowsDigest) -> RowsDigest:
        """The digest of both sets of rows together."""
        if not other.rows:
            return self
        if not self.rows:
            return other
        exact = None
        if self.exact is not None and other.exact is not None:
            exact = _added(self.exact[0], other.exact[0]), _added(self.exact[1], other.exact[1])
        return RowsDigest(
            self.rows + other.rows, _added(self.first, other.first), _added(self.second, other.second), exact
        )

    @property
    def hex(self) -> str:
        """All sums as 32 or 64 lower-case hexadecimal digits, as an ExchangeRun holds them."""
        between = "" if self.exact is None else f"{self.exact[0]:016x}{self.exact[1]:016x}"
        return f"{self.first:016x}{between}{self.second:016x}"

    @staticmethod
    def parsed(rows: int, digits: str) -> RowsDigest:
        """The inverse of `hex`. Raises DamagedRecordError."""
        try:
            if len(digits) not in (_DIGITS, _DIGITS_EXACT):
                raise ValueError
            sums = [int(digits[at : at + 16], 16) for at in range(0, len(digits), 16)]
        except ValueError as error:
            raise DamagedRecordError(
                f"{digits!r} is not the digest of an exchange: it has 32 or 64 hexadecimal digits"
            ) from error
        exact = (sums[1], sums[2]) if len(digits) == _DIGITS_EXACT else None
        return RowsDigest(rows, sums[0], sums[-1], exact)

    @staticmethod
    def of(first: Longs, second: Longs, exact: Exact = None) -> RowsDigest:
        """Of rows with these hashes, one of each a row."""
        sums = None if exact is None else (_sum(exact[0]), _sum(exact[1]))
        return RowsDigest(len(first), _sum(first), _sum(second), sums)


NO_ROWS = RowsDigest()
"""The digest of none."""


def added(digests: Iterable[RowsDigest]) -> RowsDigest:
    """The digest of all rows together."""
    return sum(digests, NO_ROWS)


def by_node(nodes_of_rows: Ints, first: Longs, second: Longs, exact: Exact = None) -> dict[int, RowsDigest]:
    """Of the rows for each node that has any; for each row its node and its two hashes."""
    several = (first, second, *(exact or ()))
    if any(len(each) != len(nodes_of_rows) for each in several):
        found = " and ".join(str(len(each)) for each in several)
        raise ValueError(f"{len(nodes_of_rows)} rows need as many hashes of each kind, not {found}")
    digests = {}
    for node in np.unique(nodes_of_rows).tolist():
        chosen = nodes_of_rows == node
        mine = None if exact is None else (exact[0][chosen], exact[1][chosen])
        digests[node] = RowsDigest.of(first[chosen], second[chosen], mine)
    return digests


def _added(one: int, other: int) -> int:
    return (one + other) % _MODULUS


def _sum(hashes: Longs) -> int:
    return int(hashes.view(np.uint64).sum(dtype=np.uint64))
