"""What a pipeline that counts knows of each partition that it reads: how many rows came, and which, in one short word.

Rows are counted in the order of their offsets, which is the same whoever reads them, in however many steps. Each is written
with the number and the word that it leads to. So a state that was lost, is too old, took in a row twice, or comes from steps
that are void, is seen in every row that follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Source = tuple[str, int]
"""Input and partition."""


@dataclass(frozen=True, slots=True)
class Tally:
    """rows: so many came. word: follows from all of them and their order."""

    rows: int = 0
    word: str = ""

    def after(self, row: bytes) -> Tally:
        digest = hashlib.blake2b(row, digest_size=4, key=self.word.encode())
        return Tally(self.rows + 1, digest.hexdigest())

    def told(self, row: bytes) -> bytes:
        """A row with what it leads to."""
        return f"{self.rows}.{self.word}:".encode() + row


Tallies = Mapping[Source, Tally]
NOTHING = Tally()


def counted(name: str, rows: Iterable[bytes], tally: Tally = NOTHING) -> tuple[list[bytes], Tally]:
    """What a pipeline of this name writes of rows that come after a tally, and the tally after them."""
    written = []
    for row in rows:
        tally = tally.after(row)
        written.append(name.encode() + b":" + tally.told(row))
    return written, tally
