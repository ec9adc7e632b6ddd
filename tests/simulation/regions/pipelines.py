"""A pipeline of a simulated region: it makes steps as a coordinator does that goes by orders of a drain, over topics with
markers of transactions in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import NamedTuple
from zlib import crc32

from kcontrol.core.model import EMPTY_DIGEST, InputSlice, Layout, OutputSlice, Reason, StepBoundary, Token
from kcontrol.core.regions.cut import Place, written_up_to
from kcontrol.core.regions.wave import DrainAnswer, DrainOrder
from tests.simulation.draws import Draws

PARTITIONS = 2
_KEEPS = 100_000
_TOKEN, _LAYOUT = Token(1, 1, 1, 1, (1,)), Layout((), 1, ())


@dataclass
class Topic:
    """By partition, a record or None for a marker, by offset."""

    name: str
    partitions: list[list[str | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])

    def place(self, partition: int) -> Place:
        return self.name, partition


def made_of(record: str, pipeline: str) -> tuple[str, ...]:
    """What a pipeline makes of a record: nothing, one record, or two."""
    made = f"{record}>{pipeline}"
    return tuple([f"{made}{copy}" for copy in range(crc32(made.encode()) % 3)])


class _Made(dict[str, tuple[str, ...]]):
    """By record. Schedules go over much the same ones, so what was made of them is kept."""

    def __init__(self, pipeline: str) -> None:
        super().__init__()
        self._pipeline = pipeline

    def __missing__(self, record: str) -> tuple[str, ...]:
        if len(self) > _KEEPS:
            self.clear()
        self[record] = made = made_of(record, self._pipeline)
        return made


@cache
def _made_by(pipeline: str) -> _Made:
    return _Made(pipeline)


def all_made_of(records: Iterable[str], pipeline: str) -> list[str]:
    return list(chain.from_iterable(map(_made_by(pipeline).__getitem__, records)))


class Slice(NamedTuple):
    """What a step wrote to a partition."""

    topic: str
    partition: int
    from_: int
    to: int
    records: int


class Step(NamedTuple):
    """inputs: of what it read of, from and to; a boundary names all that its pipeline reads."""

    step: int
    inputs: list[tuple[Place, int, int]]
    outputs: list[Slice]


@dataclass
class SimulatedPipeline:
    """every: it makes a step once in so many ticks. expired: the drain whose order it has given up, because it was too
    old."""

    name: str
    inputs: tuple[Topic, ...]
    output: Topic
    random: Draws
    every: int = 1
    steps: list[Step] = field(default_factory=list)
    order: DrainOrder | None = None
    obeys: DrainOrder | None = None
    """The same, unless it is released or given up."""
    answer: DrainAnswer | None = None
    """What it says of itself. Where it stands is found in its log: see `DrainSchedule`."""
    expired: int = 0
    held: int = 0
    _written: dict[Place, int] = field(default_factory=dict)
    _folded: int = 0
    _has_come: bool = False
    """To all limits of the order that it obeys: it never goes back."""

    def __post_init__(self) -> None:
        self.positions = {
            topic.place(partition): 0 for topic in self.inputs for partition in range(PARTITIONS)
        }
        self._reads = [
            (topic.place(partition), log)
            for topic in self.inputs
            for partition, log in enumerate(topic.partitions)
        ]

    @property
    def written(self) -> dict[Place, int]:
        """What its log says of where the partitions end that it writes, read on from where it was read last."""
        self._written |= written_up_to(self.steps[self._folded :])
        self._folded = len(self.steps)
        return self._written

    @property
    def boundaries(self) -> list[StepBoundary]:
        """Of all its steps, as they are in its log."""
        found, positions = [], dict.fromkeys(self.positions, 0)
        for step in self.steps:
            positions |= {place: to for place, _, to in step.inputs}
            found.append(_boundary(self.name, step, positions))
        return found

    @property
    def last(self) -> StepBoundary:
        """Its last step; before the first, one that has done nothing."""
        return (
            _boundary(self.name, self.steps[-1], self.positions)
            if self.steps
            else _boundary(self.name, Step(0, [], []), {})
        )

    def hear(self, order: DrainOrder) -> None:
        """The order of the newest drain, and of that what it says last."""
        now = self.order
        if now is None or (order.number, order.released) > (now.number, now.released):
            self.order, self.answer = order, DrainAnswer(order.number)
            self.obeys = None if order.released or order.number <= self.expired else order
            self._has_come = False

    def expire(self, order: DrainOrder) -> None:
        self.expired, self.obeys = order.number, None

    def has_come(self, order: DrainOrder) -> bool:
        for place, limit in order.limits.items():  # noqa: SIM110 - many times a schedule, and a generator takes longer
            if self.positions[place] < limit:
                return False
        return True

    def act(self, tick: int) -> None:
        order = self.obeys
        if order is None:
            if tick % self.every == 0:
                self._make_step({})
        elif self._has_come or self.has_come(order):
            self._has_come = True
            self.held += 1
        elif tick % self.every == 0:
            self._make_step(order.limits)

    def _make_step(self, limits: Mapping[Place, int]) -> None:
        positions, drawn_bits = self.positions, self.random.getrandbits
        named = {name for name, _ in limits} if limits else limits
        read: list[str] = []
        inputs = []
        for place, log in self._reads:
            begin, most = positions[place], len(log)
            if limits:
                most = min(most, limits.get(place, 0 if place[0] in named else most))
            if most > begin:
                half = (begin + most) // 2
                bits = (most - half + 1).bit_length()
                end = half + drawn_bits(bits)
                while end > most:
                    end = half + drawn_bits(bits)
                if end > begin:
                    read += filter(None, log[begin:end])
                    inputs.append((place, begin, end))
        if inputs:
            self._commit(read, inputs)

    def _commit(self, read: list[str], inputs: list[tuple[Place, int, int]]) -> None:
        topic, written = self.output.name, []
        made = all_made_of(read, self.name)
        for partition, log in enumerate(self.output.partitions):
            mine = made[partition::PARTITIONS]
            begin = len(log)
            log += mine
            written.append(Slice(topic, partition, begin, len(log), len(mine)))
            if mine or self.random.random() < 0.3:
                log.append(None)
        for place, _, end in inputs:
            self.positions[place] = end
        self.steps.append(Step(len(self.steps) + 1, inputs, written))


def _boundary(name: str, step: Step, positions: Mapping[Place, int]) -> StepBoundary:
    """positions: after it."""
    begun = {place: from_ for place, from_, _ in step.inputs}
    return StepBoundary(
        pipeline=name,
        step=step.step,
        token=_TOKEN,
        now_ms=step.step,
        reason=Reason.RECORDS,
        fingerprint="f",
        nodes=1,
        inputs=tuple(_input_slice(place, begun.get(place, to), to) for place, to in positions.items()),
        outputs=tuple(OutputSlice("out", *each, EMPTY_DIGEST) for each in step.outputs),
        layout=_LAYOUT,
        paused_inputs=(),
        opened_ms=0,
        committed_ms=0,
        skipped=(),
        watermark_moved=False,
    )


def _input_slice(place: Place, from_: int, to: int) -> InputSlice:
    topic, partition = place
    return InputSlice(topic, topic, "t", partition, from_, to, to - from_, EMPTY_DIGEST)
