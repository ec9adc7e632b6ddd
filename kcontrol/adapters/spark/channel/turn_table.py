"""Who may write which partition of the outputs that a query's writers share, in one attempt.

A partition has at most one holder at any time, and what it begins with is what its last holder gave back: so
each sequence number is given out once. Writers wait in the order in which they came, and none is dealt more than
its share of what it wants while there are others, so that all partitions are written side by side.

Not safe for threads, and without a clock: see `AttemptLedger`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kcontrol.adapters.kafka.write.turns import UNKNOWN_END, WriteTurn

Writer = tuple[str, int]
"""A query and the number of the writer."""
Place = tuple[str, int]
"""An output and a partition."""


class TurnError(Exception):
    """A writer gives back what it can't have."""


@dataclass(slots=True)
class TurnWait:
    """One writer that waits for turns of an output. dealt: what it was given; then it waits no more."""

    writer: Writer
    output: str
    wanted: Sequence[int]
    dealt: list[WriteTurn] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HeldTurn:
    """A turn that is out."""

    writer: Writer
    turn: WriteTurn
    since_s: float


class TurnTable:
    """The turns of one attempt."""

    def __init__(self) -> None:
        self._writers: set[Writer] = set()
        self._next: dict[Place, WriteTurn] = {}
        self._held: dict[Place, HeldTurn] = {}
        self._waiting: list[TurnWait] = []

    def join(self, writer: Writer) -> None:
        """It has leave to write, and takes turns."""
        self._writers.add(writer)

    def leave(self, writer: Writer) -> None:
        """It has written all. Raises TurnError when it still has turns, or waits for some."""
        if any(held.writer == writer for held in self._held.values()):
            raise TurnError("still has a turn")
        if any(wait.writer == writer for wait in self._waiting):
            raise TurnError("waits for a turn")
        self._writers.discard(writer)

    def shares(self, writer: Writer) -> bool:
        """Whether it takes turns and has not left."""
        return writer in self._writers

    def give_back(self, writer: Writer, output: str, turns: Collection[WriteTurn], now_s: float) -> None:
        """Turns as they are when they end. Raises TurnError when one is not the writer's, or goes back."""
        for turn in turns:
            place = (output, turn.partition)
            held = self._held.get(place)
            if held is None or held.writer != writer:
                raise TurnError(f"gives back a turn in partition {turn.partition} that it does not have")
            if turn.end < held.turn.end:
                raise TurnError(
                    f"gives back partition {turn.partition} at offset {turn.end}, and was given it at "
                    f"{held.turn.end}"
                )
            del self._held[place]
            self._next[place] = turn
        self._deal(now_s)

    def want(self, writer: Writer, output: str, partitions: Sequence[int], now_s: float) -> TurnWait:
        """Wait for turns in some of these partitions. Raises TurnError when the writer has turns of the output
        already: it would wait while it holds them."""
        if any(held.writer == writer and name == output for (name, _), held in self._held.items()):
            raise TurnError("wants turns before it has given back those that it has")
        wait = TurnWait(writer, output, partitions)
        self._waiting.append(wait)
        self._deal(now_s)
        return wait

    def withdraw(self, wait: TurnWait) -> None:
        """It waits no more; nothing was dealt."""
        self._waiting.remove(wait)

    def slowest(self, wait: TurnWait) -> HeldTurn | None:
        """Of the turns that it waits for, the one that has been out for longest; None: it waits for nobody."""
        held = [self._held[place] for each in wait.wanted if (place := (wait.output, each)) in self._held]
        return min(held, key=lambda each: each.since_s, default=None)

    def written(self, output: str, partition: int) -> WriteTurn | None:
        """Where a partition ends once all turns are given back; None: nobody had one."""
        return self._next.get((output, partition))

    def _deal(self, now_s: float) -> None:
        for wait in self._waiting:
            free = [each for each in wait.wanted if (wait.output, each) not in self._held]
            share = -(-len(wait.wanted) // max(1, len(self._writers)))
            for partition in free[:share]:
                place = (wait.output, partition)
                turn = self._next.get(place, WriteTurn(partition, 0, UNKNOWN_END))
                self._held[place] = HeldTurn(wait.writer, turn, now_s)
                wait.dealt.append(turn)
        self._waiting = [wait for wait in self._waiting if not wait.dealt]
