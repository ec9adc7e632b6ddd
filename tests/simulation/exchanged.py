"""The topics of exchanges in the simulated world, and what must hold of the rows in them, by name.

A record holds a few rows for one node. What an attempt has written can be read at once by whoever knows the offsets, and stays
there if it is aborted, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcontrol.core.model import (
    ExchangeRun,
    ExchangeSlice,
    Layout,
    PipelineSpec,
    StepBoundary,
    Token,
    Watermark,
    WatermarkPolicy,
)
from kcontrol.core.step.assignment import owners_of
from tests.simulation.invariants import require
from tests.simulation.rows import Row, delivered_to, digest_of, event_times, owner, rows_of

EXACTLY_ONCE = "every row of a step reaches stage 2 exactly once"
OWNED = "a row is taken by the owner of its shard"
NOTHING_ABORTED = "nothing of an aborted attempt's exchange is in anything committed"
AFTER_ALL = "a stage begins only after all of the stage before, of the same attempt"
AS_WRITTEN = "a run is read as it was written"
ONE_WATERMARK = "the watermark never goes back and is one"
UNCALLED = "nobody is called because of rows that no step in the log needs"
GONE = "what was sent is gone"
"""How an engine says so."""
_ROWS_OF_A_RECORD = 2


@dataclass(frozen=True, slots=True)
class Chunk:
    """One record."""

    token: Token
    node: int
    rows: tuple[Row, ...]


class ExchangeTopics:
    """Of one pipeline."""

    def __init__(self) -> None:
        self.ends: dict[tuple[str, int], int] = {}
        self.chunks: dict[tuple[str, int, int], Chunk] = {}
        """By exchange, partition and offset."""
        self.open: set[tuple[str, int]] = set()
        """What the open transaction has written to."""
        self.wrote: set[tuple[Token, int, int]] = set()
        """By attempt, the incarnations that have written a stage."""
        self.taken: dict[tuple[Token, int, str], tuple[tuple[Row, Token], ...]] = {}
        """By attempt, node and exchange: what was read, and which attempt had sent it."""

    def clone(self) -> ExchangeTopics:
        """One's own that are like these."""
        twin = ExchangeTopics()
        twin.ends, twin.chunks, twin.open = dict(self.ends), dict(self.chunks), set(self.open)
        twin.wrote, twin.taken = set(self.wrote), dict(self.taken)
        return twin

    def transaction_ended(self) -> None:
        """Its markers take an offset each."""
        for place in sorted(self.open):
            self.ends[place] += 1
        self.open = set()

    def send(
        self, exchange: str, slot: int, token: Token, rows: Sequence[tuple[int, tuple[Row, ...]]]
    ) -> ExchangeSlice:
        """What one writer task sends: by destination, its rows."""
        place = (exchange, slot)
        require(place not in self.open, "one writer a partition", (place, token))
        self.open.add(place)
        begin = at = self.ends.get(place, 0)
        runs = []
        for node, several in rows:
            first = at
            for chunk in range(0, len(several), _ROWS_OF_A_RECORD):
                part = several[chunk : chunk + _ROWS_OF_A_RECORD]
                self.chunks[exchange, slot, at] = Chunk(token, node, part)
                at += 1
            if at > first:
                runs.append(ExchangeRun(node, first, at, len(several), digest_of(several)))
        self.ends[place] = at
        return ExchangeSlice(exchange, slot, begin, at, tuple(runs))

    def read(self, exchange: str, slices: Iterable[ExchangeSlice], node: int) -> list[tuple[Row, Token]]:
        """The rows at the offsets of all runs for a node, and whose they are. Raises Violation."""
        found = []
        for piece in slices:
            for run in piece.runs if piece.exchange == exchange else ():
                for offset in range(run.from_, run.to):
                    chunk = self.chunks.get((exchange, piece.partition, offset))
                    require(chunk is not None and chunk.node == node == run.node, AS_WRITTEN, (piece, offset))
                    assert chunk is not None
                    found += [(row, chunk.token) for row in chunk.rows]
        return found

    def is_gone(self, slices: Iterable[ExchangeSlice]) -> bool:
        """Whether something at the offsets of these runs was deleted."""
        return any(
            (piece.exchange, piece.partition, offset) not in self.chunks
            for piece in slices
            for run in piece.runs
            for offset in range(run.from_, run.to)
        )

    def check_begins(self, token: Token, stage: int) -> None:
        """An engine is about to begin a stage."""
        missing = [one for one in token.incarnations if (token, one, stage - 1) not in self.wrote]
        require(not missing, AFTER_ALL, (token, stage, missing))

    def delete_before(self, kept: Sequence[StepBoundary]) -> None:
        """Remove what lies before everything that these steps have exchanged."""
        begins: dict[tuple[str, int], int] = {}
        for boundary in kept:
            for piece in boundary.exchanges:
                place = (piece.exchange, piece.partition)
                begins[place] = min(piece.from_, begins.get(place, piece.from_))
        for exchange, slot, offset in list(self.chunks):
            if offset < begins.get((exchange, slot), 0):
                del self.chunks[exchange, slot, offset]


def parcels(
    spec: PipelineSpec, layout: Layout, exchange: str, rows: Sequence[Row]
) -> list[tuple[int, tuple[Row, ...]]]:
    """Rows by the node that an exchange brings them to."""
    return [
        (node, tuple(row for row in rows if destination(spec, layout, exchange, row) == node))
        for node in range(spec.nodes)
    ]


def destination(spec: PipelineSpec, layout: Layout, exchange: str, row: Row) -> int:
    """Where an exchange brings a row."""
    found = next(each for each in spec.exchanges if each.name == exchange)
    if found.delivers:
        return delivered_to(row, spec, layout)
    return owner(row, owners_of(spec))


def check_exchanged(
    topics: ExchangeTopics, spec: PipelineSpec, last: StepBoundary | None, boundary: StepBoundary
) -> None:
    """What nodes have sent each other in a step that would be committed now. spec: of as many nodes as have made it."""
    rows = sorted(rows_of(spec, boundary.inputs))
    for each in boundary.layout.exchanges:
        name = each.exchange
        taken = [
            (row, token, node)
            for node in range(boundary.nodes)
            for row, token in topics.taken.get((boundary.token, node, name), ())
        ]
        aborted = [one for one in taken if one[1] != boundary.token]
        require(not aborted, NOTHING_ABORTED, (boundary.step, name, aborted))
        require(sorted(row for row, _, _ in taken) == rows, EXACTLY_ONCE, (boundary.step, name, taken, rows))
        strange = [one for one in taken if destination(spec, boundary.layout, name, one[0]) != one[2]]
        require(not strange, OWNED, (boundary.step, name, strange))
        logged = [
            one for node in range(boundary.nodes) for one in topics.read(name, cut(boundary, node), node)
        ]
        whole = sorted(row for row, _ in logged) == rows and all(
            token == boundary.token for _, token in logged
        )
        require(whole, AS_WRITTEN, (boundary.step, name, logged, rows))
    _check_watermarks(spec, last, boundary)


def cut(boundary: StepBoundary, node: int) -> tuple[ExchangeSlice, ...]:
    """The runs of a boundary that are for a node, found without the core."""
    return tuple(
        ExchangeSlice(
            piece.exchange,
            piece.partition,
            piece.from_,
            piece.to,
            tuple(run for run in piece.runs if run.node == node),
        )
        for piece in boundary.exchanges
    )


def _check_watermarks(spec: PipelineSpec, last: StepBoundary | None, boundary: StepBoundary) -> None:
    """As one node would have them that has seen every row."""
    before = () if last is None else last.watermarks
    seen = event_times(rows_of(spec, boundary.inputs))
    expected = []
    for each in spec.watermarks:
        earlier = next((one for one in before if one.query == each.query), Watermark(each.query, (0, 0), 0))
        operators = tuple(
            max(was, greatest - delay_ms if greatest else 0)
            for was, greatest, delay_ms in zip(earlier.operators_ms, seen, each.delays_ms, strict=True)
        )
        now = min(operators) if each.policy is WatermarkPolicy.MIN else max(operators)
        expected.append(Watermark(each.query, operators, max(now, earlier.ms)))
    require(boundary.watermarks == tuple(expected), ONE_WATERMARK, (boundary.watermarks, expected))
