"""How the writers of one attempt take turns, and what they wrote together.

A turn that is not given back in time ends the attempt, as does everything that does not fit: the sequence number
that comes next is then known to nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.spark.channel.turn_table import TurnError, TurnTable, TurnWait, Writer
from kcontrol.core.model import FailureKind, OutputSlice
from kcontrol.errors import StepFailedError
from kcontrol.wire.digest import add_digests

LONG_POLL_S = 30.0
"""A writer that waits for a turn is answered at least this often."""

Fail = Callable[[FailureKind, str], StepFailedError]


class SharedWriting:
    """For one attempt. changed: the attempt's, which is held when it is called, and told of every change.

    over: raises if the attempt is. fail: ends it.
    """

    def __init__(self, step: int, changed: threading.Condition, over: Callable[[], None], fail: Fail) -> None:
        self._step, self._changed, self._over, self._fail = step, changed, over, fail
        self._table = TurnTable()

    def join(self, writer: Writer) -> None:
        """It has leave to write, and takes turns with its siblings."""
        self._table.join(writer)

    def take(
        self,
        writer: Writer,
        output: str,
        back: Sequence[WriteTurn],
        wanted: Sequence[int],
        turn_s: float,
        poll_s: float = LONG_POLL_S,
    ) -> tuple[WriteTurn, ...]:
        """See `Turns.take`. turn_s: how long a turn may be out.

        Raises StepFailedError, which ends the attempt.
        """
        self._over()
        try:
            if not self._table.shares(writer):
                raise TurnError("has no leave to take turns")
            self._table.give_back(writer, output, back, time.monotonic())
            if back:
                self._changed.notify_all()
            if not wanted:
                return ()
            wait = self._table.want(writer, output, wanted, time.monotonic())
        except TurnError as error:
            raise self._wrong(writer, str(error)) from error
        return self._await(wait, turn_s, time.monotonic() + poll_s)

    def leave(self, writer: Writer) -> None:
        """It has written all. Raises StepFailedError, which ends the attempt."""
        if self._table.shares(writer):
            try:
                self._table.leave(writer)
            except TurnError as error:
                raise self._wrong(writer, f"says that it has written all, and {error}") from error

    def together(self, slices: Iterable[OutputSlice], replay: bool) -> tuple[OutputSlice, ...]:
        """One slice for each partition, of those of all writers, by output and partition.

        Raises StepFailedError when a partition holds another number of records than was written in its turns.
        """
        found: dict[tuple[str, int], OutputSlice] = {}
        for item in slices:
            known = found.get((item.output, item.partition))
            found[item.output, item.partition] = item if known is None else _sum(known, item)
        for place, item in found.items():
            turn = self._table.written(*place)
            if not replay and (
                turn is None or (turn.sequence, turn.end) != (item.records % (1 << 31), item.to)
            ):
                raise self._fail(
                    FailureKind.LOST,
                    f"step {self._step}: writers of output {item.output!r} partition {item.partition} say that "
                    f"they wrote {item.records} records up to offset {item.to}, and their turns say {turn}",
                )
        return tuple(found[place] for place in sorted(found))

    def _await(self, wait: TurnWait, turn_s: float, until_s: float) -> tuple[WriteTurn, ...]:
        while not wait.dealt:
            now_s, slowest = time.monotonic(), self._table.slowest(wait)
            due_s = now_s if slowest is None else slowest.since_s + turn_s
            if slowest is not None and now_s >= due_s:
                raise self._wrong(
                    slowest.writer,
                    f"has not given back its turn in output {wait.output!r} partition {slowest.turn.partition} "
                    f"for {turn_s:.0f} s",
                )
            if now_s >= until_s:
                self._table.withdraw(wait)
                return ()
            self._changed.wait(min(until_s, due_s if slowest is not None else until_s) - now_s)
            self._over()
        return tuple(wait.dealt)

    def _wrong(self, writer: Writer, why: str) -> StepFailedError:
        query, number = writer
        return self._fail(
            FailureKind.LOST, f"step {self._step}: writer {number} of query {query!r} {why}; the attempt ends"
        )


def _sum(one: OutputSlice, other: OutputSlice) -> OutputSlice:
    return OutputSlice(
        one.output,
        one.topic,
        one.partition,
        min(one.from_, other.from_),
        max(one.to, other.to),
        one.records + other.records,
        add_digests((one.digest, other.digest)),
    )
