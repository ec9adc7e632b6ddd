"""What a stream of an output is made of, and who makes it: the port behind `streams.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from kcontrol.errors import KcontrolError

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

    def begin(self) -> str:
        """Before the first piece: find the log of steps, and tell its id. Blocking. Raises NotNowError: it is another one than
        was asked for; and what StepConsumer does."""
        ...

    def take(self) -> Piece | None:
        """The next piece; None: there is none yet, after `BEAT_S`. Blocking. Raises what StepConsumer does. None, too, once it
        is closed."""
        ...

    def close(self) -> None:
        """From any thread, also while a piece is being taken, which is given up by then."""
        ...


Follow = Callable[[str, str, int, str], OutputPieces]
"""Of a pipeline, an output, the step after which to begin, and the id of the log that it is of, '' if that is not known.
Nothing is read before the first piece."""


class StreamObserver(Protocol):
    """Is told and never asked."""

    def rows(self, pipeline: str, output: str, count: int) -> None:
        """They are on their way to a client."""
        ...

    def step(self, pipeline: str, output: str) -> None:
        """All its rows are."""
        ...

    def refused(self, pipeline: str, output: str) -> None:
        """There were as many streams as there may be."""
        ...

    def failed(self, pipeline: str, output: str) -> None:
        """A stream can't go on."""
        ...


class NobodyLooks:
    """Nobody is told."""

    def rows(self, pipeline: str, output: str, count: int) -> None:
        pass

    def step(self, pipeline: str, output: str) -> None:
        pass

    def refused(self, pipeline: str, output: str) -> None:
        pass

    def failed(self, pipeline: str, output: str) -> None:
        pass


NOBODY_LOOKS = NobodyLooks()

_Result = TypeVar("_Result")


@dataclass
class OutputStreams:
    """Whoever follows outputs. most: so many at a time; 0: none. longest_s: a stream ends after so long, behind a step, and is
    asked for again."""

    follow: Follow
    most: int
    longest_s: float
    observer: StreamObserver = NOBODY_LOOKS
    _open: WeakSet[OutputPieces] = field(default_factory=WeakSet, init=False)
    """Weak, because a response that never begins, its client having gone, ends by being forgotten."""
    _threads: ThreadPoolExecutor = field(init=False)
    """Of their own, one for each: a stream waits in its thread, and other requests need those of the loop."""
    _closing: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(max(1, self.most), thread_name_prefix="kcontrol-streams")

    @property
    def running(self) -> int:
        """How many there are."""
        return len(self._open)

    def begin(self, pipeline: str, output: str, after: int, log_id: str = "") -> RunningStream:
        """One more."""
        pieces = self.follow(pipeline, output, after, log_id)
        self._open.add(pieces)
        ended, told = partial(self._open.discard, pieces), _Told(self.observer, pipeline, output)
        return RunningStream(pieces, self._threads, self.longest_s, self._closing, ended, told)

    async def close(self) -> None:
        """No more are begun. Waits for those that end already, for a while."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=2 * BEAT_S)
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the observer is told of one stream."""

    observer: StreamObserver
    pipeline: str
    output: str

    def took(self, piece: Piece) -> None:
        if isinstance(piece, Rows):
            self.observer.rows(self.pipeline, self.output, len(piece.rows))
        elif isinstance(piece, StepDone):
            self.observer.step(self.pipeline, self.output)

    def failed(self) -> None:
        self.observer.failed(self.pipeline, self.output)


class RunningStream:
    """One of them. It keeps its place until its thread is done with it."""

    def __init__(
        self,
        pieces: OutputPieces,
        threads: ThreadPoolExecutor,
        longest_s: float,
        closing: set[asyncio.Task[None]],
        ended: Callable[[], None],
        told: _Told,
    ) -> None:
        """closing: where it is kept while it ends by itself. ended: called when its place is free."""
        self.longest_s, self._told = longest_s, told
        self._pieces, self._threads, self._all_closing, self._ended = pieces, threads, closing, ended
        self._working: asyncio.Future[Any] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def begin(self) -> str:
        """As OutputPieces have it."""
        return await self._in_thread(self._pieces.begin)

    async def take(self) -> Piece | None:
        """As OutputPieces have it. One call at a time."""
        try:
            piece = await self._in_thread(self._pieces.take)
        except KcontrolError:
            self._told.failed()
            raise
        if piece is not None:
            self._told.took(piece)
        return piece

    async def end(self) -> None:
        """One less. It goes on by itself where whoever waits for it has gone. May be called again."""
        if self._closing is None:
            closing = self._closing = asyncio.ensure_future(self._close())
            self._all_closing.add(closing)
            closing.add_done_callback(self._all_closing.discard)
        await asyncio.shield(self._closing)

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        working = self._working = asyncio.get_running_loop().run_in_executor(self._threads, work)
        return await asyncio.shield(working)

    async def _close(self) -> None:
        try:
            if self._working is not None:
                # A piece that is being taken holds the one thread that there is for this.
                await asyncio.wait((self._working,))
            await self._in_thread(self._pieces.close)
        finally:
            self._ended()
