"""What a stream of an output is made of, and who makes it: the port behind `streams.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

BEAT_S = 5.0
"""A comment is sent when nothing has come for so long, so that both sides find out that the other is gone."""


class CommittedRow(Protocol):
    """A committed record."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a step."""

    step: int
    rows: Sequence[CommittedRow]


@dataclass(frozen=True, slots=True)
class StepDone:
    """All rows of a step have come. follows: the step before, of those that are not void."""

    step: int
    rows: int
    follows: int
    committed_ms: int


@dataclass(frozen=True, slots=True)
class Voided:
    """Steps that were told are void: those after `to_step`. The next one follows `reset`."""

    to_step: int
    reset: int
    why: str


Piece = Rows | StepDone | Voided


class OutputPieces(Protocol):
    """The committed steps of one output, piece by piece. One call at a time."""

    def take(self) -> Piece | None:
        """The next piece; None: there is none yet, after `BEAT_S`. Blocking. Raises what StepConsumer does."""
        ...

    def close(self) -> None: ...


Follow = Callable[[str, str, int], OutputPieces]
"""Of a pipeline, an output, and the step after which to begin. Blocking. Raises NotFoundError."""


@dataclass
class OutputStreams:
    """Whoever follows outputs. most: so many at a time; 0: none. longest_s: a stream ends after so long, behind a step, and is
    asked for again."""

    follow: Follow
    most: int
    longest_s: float
    running: int = field(default=0, init=False)
