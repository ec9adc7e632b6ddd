"""Tables that both sides write to: an empty one for each run, which tells afterwards when each transaction has come into it.

Each kind tells it of itself, so that nobody has to look while it is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bench.deliver.rows import Amounts, Numbers


class TargetMissingError(RuntimeError):
    """What a kind of table needs is not on this machine; the text is one sentence that names it."""


class DeliveredTable(Protocol):
    """One table."""

    @property
    def to(self) -> str:
        """As `kcontrol deliver --to` takes it; Spark's side gets it, too."""
        ...

    @property
    def deliver_options(self) -> Sequence[str]:
        """Of `kcontrol deliver`, beside that."""
        ...

    def step(self) -> int:
        """The last one that kcontrol has delivered; 0: none."""
        ...

    def moments_ms(self) -> list[float]:
        """When each step or batch was committed, in order."""
        ...

    def columns(self) -> tuple[Numbers, Numbers, Amounts]:
        """The ids, numbers and amounts of all rows."""
        ...


class Tables(Protocol):
    """Makes them. environment: variables that whoever writes to them needs."""

    environment: dict[str, str]

    def new(self, mode: str) -> DeliveredTable:
        """A table that has nothing yet."""
        ...
