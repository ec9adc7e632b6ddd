"""What a stream of an output is made of, and who makes it: the port behind `streams.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakSet

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
        """The next piece; None: there is none yet, after `BEAT_S`. Blocking. Raises what StepConsumer does. None, too, once it
        is closed."""
        ...

    def close(self) -> None:
        """From any thread, also while a piece is being taken, which is given up by then."""
        ...


Follow = Callable[[str, str, int], OutputPieces]
"""Of a pipeline, an output, and the step after which to begin. Nothing is read before the first piece."""


@dataclass
class OutputStreams:
    """Whoever follows outputs. most: so many at a time; 0: none. longest_s: a stream ends after so long, behind a step, and is
    asked for again."""

    follow: Follow
    most: int
    longest_s: float
    _open: WeakSet[OutputPieces] = field(default_factory=WeakSet, init=False)
    """Weak, because a response that never begins, its client having gone, ends by being forgotten."""

    @property
    def running(self) -> int:
        """How many there are."""
        return len(self._open)

    def begin(self, pipeline: str, output: str, after: int) -> OutputPieces:
        """One more."""
        pieces = self.follow(pipeline, output, after)
        self._open.add(pieces)
        return pieces

    def end(self, pieces: OutputPieces) -> None:
        """One less."""
        self._open.discard(pieces)
