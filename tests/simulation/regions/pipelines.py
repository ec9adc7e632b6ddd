"""A pipeline of a simulated region: it makes steps as a coordinator does that goes by orders of a drain, over topics with
markers of transactions in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from kcontrol.core.model import EMPTY_DIGEST, InputSlice, Layout, OutputSlice, Reason, StepBoundary, Token
from kcontrol.core.regions.cut import Place
from kcontrol.core.regions.wave import DrainAnswer, DrainOrder

PARTITIONS = 2


@dataclass
class Topic:
    """By partition, a record or None for a marker, by offset."""

    name: str
    partitions: list[list[str | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])

    def place(self, partition: int) -> Place:
        return self.name, partition


def made_of(record: str, pipeline: str) -> list[str]:
    """What a pipeline makes of a record: nothing, one record, or two."""
    made = f"{record}>{pipeline}"
    return [f"{made}{copy}" for copy in range(crc32(made.encode()) % 3)]


@dataclass
class SimulatedPipeline:
    """every: it makes a step once in so many ticks. expired: the drain whose order it has given up, because it was too
    old."""

    name: str
    inputs: tuple[Topic, ...]
    output: Topic
    random: Random
    every: int = 1
    boundaries: list[StepBoundary] = field(default_factory=list)
    positions: dict[Place, int] = field(default_factory=dict)
    order: DrainOrder | None = None
    expired: int = 0
    held: int = 0

    @property
    def last(self) -> StepBoundary:
        """Its last step; before the first, one that has done nothing."""
        return self.boundaries[-1] if self.boundaries else _boundary(self.name, 0, [], [])

    def hear(self, order: DrainOrder) -> None:
        """The order of the newest drain, and of that what it says last."""
        now = self.order
        if now is None or (order.number, order.released) > (now.number, now.released):
            self.order = order

    def obeyed(self) -> DrainOrder | None:
        now = self.order
        return None if now is None or now.released or now.number <= self.expired else now

    def answer(self) -> DrainAnswer | None:
        """What it says of itself. Where it stands is found in its log: see `SimulatedDrain`."""
        return None if self.order is None else DrainAnswer(self.order.number)

    def has_come(self, order: DrainOrder) -> bool:
        return all(self.positions.get(place, 0) >= limit for place, limit in order.limits.items())

    def act(self, tick: int) -> None:
        order = self.obeyed()
        if order is not None and self.has_come(order):
            self.held += 1
        elif tick % self.every == 0:
            self._make_step({} if order is None else order.limits)

    def _make_step(self, limits: dict[Place, int]) -> None:
        read, slices = [], []
        named = {name for name, _ in limits}
        for topic in self.inputs:
            for partition, log in enumerate(topic.partitions):
                place = topic.place(partition)
                begin = self.positions.get(place, 0)
                most = min(len(log), limits.get(place, 0 if topic.name in named else len(log)))
                end = max(begin, self.random.randint((begin + most) // 2, most) if most > begin else begin)
                read += [record for record in log[begin:end] if record is not None]
                slices.append(
                    InputSlice(topic.name, topic.name, "t", partition, begin, end, end - begin, EMPTY_DIGEST)
                )
        if any(one.to > one.from_ for one in slices):
            self._commit(read, slices)

    def _commit(self, read: list[str], slices: list[InputSlice]) -> None:
        written = []
        made = [one for record in read for one in made_of(record, self.name)]
        for partition, log in enumerate(self.output.partitions):
            mine = made[partition::PARTITIONS]
            begin = len(log)
            log += mine
            written.append(
                OutputSlice("out", self.output.name, partition, begin, len(log), len(mine), EMPTY_DIGEST)
            )
            if mine or self.random.random() < 0.3:
                log.append(None)
        self.positions |= {(one.topic, one.partition): one.to for one in slices}
        self.boundaries.append(_boundary(self.name, len(self.boundaries) + 1, slices, written))


def _boundary(name: str, step: int, inputs: list[InputSlice], outputs: list[OutputSlice]) -> StepBoundary:
    return StepBoundary(
        pipeline=name,
        step=step,
        token=Token(1, 1, 1, 1, (1,)),
        now_ms=step,
        reason=Reason.RECORDS,
        fingerprint="f",
        nodes=1,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        layout=Layout((), 1, ()),
        paused_inputs=(),
        opened_ms=0,
        committed_ms=0,
        skipped=(),
        watermark_moved=False,
    )
