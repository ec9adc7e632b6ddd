"""What the driver knows of the rows that nodes exchange in one attempt: what this node sent, what lies ready for
it, who reads which part of it, and whether all of it was read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kcontrol.adapters.spark.channel.messages import RunToRead
from kcontrol.core.model import ExchangeSlice, FailureKind
from kcontrol.errors import StepFailedError

Fail = Callable[[FailureKind, str], StepFailedError]


def runs_of(slices: Iterable[ExchangeSlice], node: int) -> dict[str, tuple[RunToRead, ...]]:
    """By exchange: what is for a node, by slot and offset."""
    found: dict[str, list[RunToRead]] = {}
    for piece in slices:
        mine = [RunToRead(piece.partition, r.from_, r.to, r.records) for r in piece.runs if r.node == node]
        found.setdefault(piece.exchange, []).extend(mine)
    return {
        name: tuple(sorted(runs, key=lambda run: (run.partition, run.from_))) for name, runs in found.items()
    }


def dealt(runs: Sequence[RunToRead], tasks: int) -> list[tuple[RunToRead, ...]]:
    """Which runs each of so many source tasks reads, in this order: each to the least loaded, as they come.

    It follows from the runs and the number alone, so that a replay deals alike.
    """
    hands: list[list[RunToRead]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for run in runs:
        least = loads.index(min(loads))
        hands[least].append(run)
        loads[least] += run.records
    return [tuple(hand) for hand in hands]


@dataclass(frozen=True, slots=True)
class Stages:
    """How the work of a node is cut into stages. of_work: the stage of each of its queries, and of each exchange
    that it delivers. readers: by exchange, how many source tasks it has in the step."""

    node: int
    of_work: Mapping[str, int]
    readers: Mapping[str, int]

    def until(self, stage: int) -> frozenset[str]:
        """What must be done by the end of a stage."""
        return frozenset(name for name, its in self.of_work.items() if its <= stage)


class Exchanging:
    """For one attempt; every method may be called by any thread. changed: the attempt's, told of what others wait
    for. over: raises if the attempt is. fail: ends it."""

    def __init__(
        self, step: int, stages: Stages, changed: threading.Condition, over: Callable[[], None], fail: Fail
    ) -> None:
        self._step, self._stages = step, stages
        self._changed, self._over, self._fail = changed, over, fail
        self._begun = 0
        self._ready: dict[str, tuple[RunToRead, ...]] = {}
        self._taken: dict[tuple[str, str, int], int] = {}
        self._sent: dict[tuple[str, int], tuple[ExchangeSlice, ...]] = {}

    @property
    def node(self) -> int:
        """Which one this is."""
        return self._stages.node

    def begin(self, stage: int, received: Iterable[ExchangeSlice]) -> None:
        """Let the work of stages up to this one begin, on what lies at `received` and what was there before.

        Raises StepFailedError when the attempt is over.
        """
        with self._changed:
            self._over()
            self._begun = stage
            self._ready |= runs_of(received, self._stages.node)
            self._changed.notify_all()

    def may_work(self, query: str) -> bool:
        """Whether its stage has begun."""
        return self._stages.of_work.get(query, 0) <= self._begun

    def ready(self, exchange: str) -> tuple[RunToRead, ...]:
        """All that is for this node."""
        with self._changed:
            return self._ready.get(exchange, ())

    def tasks(self, exchange: str) -> int:
        """How many source tasks read it, on each node."""
        return max(1, self._stages.readers.get(exchange, 1))

    def part(self, query: str, exchange: str, task: int) -> tuple[RunToRead, ...]:
        """What one source task reads. Raises StepFailedError (QUERY), which ends the attempt, when it runs before the
        stage of its query."""
        with self._changed:
            self._over()
            if not self.may_work(query):
                raise self._fail(
                    FailureKind.QUERY,
                    f"step {self._step}: Spark reads exchange {exchange!r} for query {query!r} while it plans it, "
                    "before the rows are there: leave out behind kcontrol.exchange() what looks at rows to be planned",
                )
            hands = dealt(self.ready(exchange), self.tasks(exchange))
            return hands[task] if task < len(hands) else ()

    def report_taken(self, query: str, exchange: str, task: int, records: int) -> None:
        """A source task has read its part to the end. Raises StepFailedError (LOST), which ends the attempt, when it
        found another number of rows than was sent."""
        with self._changed:
            self._over()
            wanted = sum(run.records for run in self.part(query, exchange, task))
            if records != wanted:
                raise self._fail(
                    FailureKind.LOST,
                    f"step {self._step}: source task {task} of query {query!r} found {records} rows in exchange "
                    f"{exchange!r}, where {wanted} were sent",
                )
            self._taken[query, exchange, task] = records

    def untaken(self, query: str, exchange: str) -> tuple[RunToRead, ...]:
        """Runs that no task of the query has read to the end, as where a plan has a limit."""
        with self._changed:
            hands = dealt(self.ready(exchange), self.tasks(exchange))
            return tuple(
                run
                for task, hand in enumerate(hands)
                if (query, exchange, task) not in self._taken
                for run in hand
            )

    def report_sent(self, query: str, writer: int, slices: tuple[ExchangeSlice, ...]) -> None:
        """A writer task that has leave has sent all that it was given."""
        with self._changed:
            self._sent[query, writer] = slices

    def sent(self, queries: Collection[str]) -> tuple[ExchangeSlice, ...]:
        """What these queries have sent, by exchange and slot."""
        with self._changed:
            said = [
                piece for (query, _), pieces in self._sent.items() if query in queries for piece in pieces
            ]
            return tuple(sorted(said, key=lambda piece: (piece.exchange, piece.partition)))
