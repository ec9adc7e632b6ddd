"""The part of a simulated engine that sends rows to other nodes and takes what they have sent."""

from __future__ import annotations

from kcontrol.core.model import (
    EventTimes,
    ExchangeSlice,
    ExchangeTaken,
    PipelineSpec,
    StepBoundary,
    StepWork,
    Token,
)
from kcontrol.core.step.exchange import runs_for, slots_of
from tests.simulation.exchanged import AS_WRITTEN, cut, parcels
from tests.simulation.invariants import require
from tests.simulation.rows import Row, event_times
from tests.simulation.states import signature, signature_of
from tests.simulation.world import World, twin_of


class Exchanging:
    """What one engine has sent and taken in the attempt or replay that ran last."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.sent: list[ExchangeSlice] = []
        """In the stage under way."""
        self.taken: dict[str, tuple[Row, ...]] = {}
        """By exchange."""
        self.loses_a_row = False
        """The next fetch gives one too few."""

    def clone(self, world: World) -> Exchanging:
        """The same in another world."""
        twin = twin_of(self)
        twin.world, twin.sent, twin.taken = world, list(self.sent), dict(self.taken)
        return twin

    def begin(self) -> None:
        """Nothing of another attempt is left."""
        self.sent, self.taken = [], {}

    def rows(self) -> tuple[Row, ...]:
        """What comes into the state."""
        return tuple(sorted(self.taken.get("x", ())))

    def take(self, spec: PipelineSpec, stage: int, received: tuple[ExchangeSlice, ...], token: Token) -> None:
        """What other nodes have just sent in the stage before. That it is of this attempt is looked at when it would be
        committed."""
        self.sent = []
        for exchange in spec.exchanges:
            if exchange.stage != stage - 1:
                continue
            found = self.world.exchanged.read(exchange.name, received, self.number)
            if self.loses_a_row and found:
                self.loses_a_row = False
                found.pop()
            self.taken[exchange.name] = tuple(row for row, _ in found)
            self.world.exchanged.taken[token, self.number, exchange.name] = tuple(found)

    def is_gone(self, expected: StepBoundary) -> bool:
        """Whether something that was sent to this node in a step that the log has dropped was deleted: of no other step may
        it be."""
        gone = self.world.exchanged.is_gone(cut(expected, self.number))
        require(not gone or expected.step < self.world.first_step, AS_WRITTEN, expected)
        return gone

    def take_again(self, work: StepWork, expected: StepBoundary) -> None:
        """What the log says that was sent to this node: nobody else is needed for it."""
        for each in expected.layout.exchanges:
            received = runs_for(expected.exchanges, self.number)
            found = self.world.exchanged.read(each.exchange, received, self.number)
            require(all(token == expected.token for _, token in found), AS_WRITTEN, (expected, found))
            self.taken[each.exchange] = tuple(row for row, _ in found)
        made = signature(work, self.rows(), expected.watermarks)
        right = signature_of(self.world, expected, self.number)
        require(made[:3] == right[:3], "a replay runs the division of the log", (work, expected))
        require(made == right, AS_WRITTEN, (made, right))

    def slots(self, spec: PipelineSpec, work: StepWork, stage: int) -> list[tuple[int, int]]:
        """What is written in a stage: as in `SimulatedEngine.to_write`."""
        return [
            (-1 - index, slot)
            for index, exchange in enumerate(spec.exchanges)
            for slot in slots_of(spec, work.layout, exchange.name, self.number)
            if exchange.stage == stage
        ]

    def send(self, spec: PipelineSpec, number: int, slot: int, work: StepWork, read: tuple[Row, ...]) -> None:
        """One writer task's share of the rows that this node has read, or taken from the exchange before."""
        name = spec.exchanges[number].name
        rows = self.taken["x"] if number else read
        mine = slots_of(spec, work.layout, name, self.number)
        share = rows[mine.index(slot) :: len(mine)]
        self.sent.append(self.world.send(number, slot, parcels(spec, work.layout, name, share), work.token))

    def counts(self) -> tuple[ExchangeTaken, ...]:
        """Rows taken."""
        return tuple(ExchangeTaken(name, self.number, len(rows)) for name, rows in self.taken.items())

    def times(self, spec: PipelineSpec) -> tuple[EventTimes, ...]:
        """What each watermark has seen."""
        return tuple(
            EventTimes(each.query, self.number, event_times(self.rows())) for each in spec.watermarks
        )
