"""Drains that go down random graphs of pipelines: orders and answers are late, doubled and lost, who drains is replaced at
any moment, and pipelines give orders up. A cut that is recorded must be what the outer input before it leads to, record by
record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kcontrol.core.regions import cut as cuts
from kcontrol.core.regions import wave as waves
from kcontrol.core.regions.cut import Place
from kcontrol.core.regions.graph import RegionGraph, refused_graph
from kcontrol.core.regions.model import DrainMode
from kcontrol.core.regions.wave import DrainAnswer, DrainOrder, DrainWave
from tests.simulation.draws import Draws
from tests.simulation.invariants import require
from tests.simulation.regions.pipelines import SimulatedPipeline, Topic
from tests.simulation.regions.recomputed import Recomputed

NO_FLIGHT = "nothing is in flight in a cut, unless a pipeline has given its order up"
AS_RECOMPUTED = "a recorded cut is what the outer input before it leads to, and nothing else"
NOT_HELD = "a pipeline is held by an order of the newest drain alone"
COMPLETES = "without faults every drain is completed"
ONE_NUMBER = "a number is one drain's"

TICKS = 150
_END_TICKS = 3_000
_LATE_TICKS = 6


def asked_of(pipeline: SimulatedPipeline, random: Draws, *, old: bool) -> dict[Place, int]:
    """Where its output ends, or has ended once: of a partition whose leader was deposed and does not know it."""
    ends = {pipeline.output.place(number): len(log) for number, log in enumerate(pipeline.output.partitions)}
    return {
        place: random.between(0, end) if old and random.random() < 0.2 else end for place, end in ends.items()
    }


@dataclass
class DrainSchedule:
    """seed: of all that is random. faults: who drains is replaced, orders are given up."""

    seed: int
    faults: bool = True
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random = Draws(self.seed)
        self.mode = random.one_of(tuple(DrainMode))
        self.outer = [Topic("outer0"), Topic("outer1")]
        self.fed = [(topic.name, log) for topic in self.outer for log in topic.partitions]
        self.pipelines: dict[str, SimulatedPipeline] = {}
        for number in range(random.between(1, 6)):
            inner = [one.output for one in self.pipelines.values() if random.random() < 0.5]
            outer = [one for one in self.outer if not inner or random.random() < 0.2]
            name = f"p{number}"
            slow = 30 if inner and random.random() < 0.3 else 1
            inputs = (*inner, *outer)
            self.pipelines[name] = SimulatedPipeline(name, inputs, Topic(f"t{number}"), random, slow)
        self.in_order = [self.pipelines[name] for name in sorted(self.pipelines)]
        self.graph = RegionGraph(
            {name: frozenset(one.name for one in each.inputs) for name, each in self.pipelines.items()},
            {name: frozenset({each.output.name}) for name, each in self.pipelines.items()},
        )
        require(not refused_graph(self.graph), NOT_HELD, refused_graph(self.graph))
        self.number = 0
        self.numbers: set[int] = set()
        self.wave: DrainWave | None = None
        self.net: list[list[tuple[str, DrainOrder | DrainAnswer]]] = [[] for _ in range(_LATE_TICKS + 1)]
        """By the tick at which it comes, round and round."""
        self.given_up: set[int] = set()
        self.serial = 0
        self.recomputed = Recomputed(self.pipelines)

    def run(self) -> None:
        """Raises Violation at the first invariant that does not hold."""
        for tick in range(TICKS):
            self._tick(tick, self.faults)
        recorded = self.counts["cuts"]
        self.faults = False
        self._replace()
        for tick in range(TICKS, TICKS + _END_TICKS):
            self._tick(tick, False)
            if self.counts["cuts"] > recorded + 1:
                return
        require(False, COMPLETES, (self.wave, [one.order for one in self.pipelines.values()]))

    def _tick(self, tick: int, faults: bool) -> None:
        random = self.random
        self._feed()
        if faults and random.random() < 0.02:
            random.one_of((self._replace, self._give_up))()
        if self.wave is None and random.random() < 0.2:
            self._begin()
        self._talk(tick)
        self._hear(tick)
        for pipeline in random.mixed(self.in_order):
            pipeline.act(tick)
        self._look()

    def _feed(self) -> None:
        draw = self.random.random
        for name, log in self.fed:
            if draw() < 0.3:
                log.append(f"{name}-{self.serial}" if draw() < 0.9 else None)
                self.serial += 1

    # --- who drains -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The number is in the log of cuts before anybody is told of it."""
        self.number += 1
        require(self.number not in self.numbers, ONE_NUMBER, self.number)
        self.numbers.add(self.number)
        self.wave = waves.begin_drain(self.graph, self.number, self.mode)

    def _replace(self) -> None:
        """Who goes on knows the number of the drain under way, and nothing of how far it is."""
        self.counts["takeovers"] += 1
        if self.wave is not None:
            self._begin()

    def _give_up(self) -> None:
        pipeline = self.random.one_of(list(self.pipelines.values()))
        order = pipeline.obeys
        if order is not None:
            pipeline.expire(order)
            self.given_up.add(order.number)

    def _talk(self, tick: int) -> None:
        draw, below, net, rounds = self.random.random, self.random.below, self.net, _LATE_TICKS + 1
        if self.wave is not None:
            for name, order in self.wave.orders.items():
                if draw() < 0.5:
                    net[(tick + below(rounds)) % rounds].append((name, order))
        for name, pipeline in self.pipelines.items():
            answer = pipeline.answer
            if answer is not None and draw() < 0.5:
                net[(tick + below(rounds)) % rounds].append((name, answer))

    def _hear(self, tick: int) -> None:
        draw, now = self.random.random, tick % (_LATE_TICKS + 1)
        come, self.net[now] = self.net[now], []
        for name, said in come:
            if draw() < 0.15:
                continue
            if isinstance(said, DrainOrder):
                self.pipelines[name].hear(said)
            elif self.wave is not None:
                self.wave = waves.hear_answer(self.graph, self.wave, name, self._with_cut(name, said))

    def _with_cut(self, name: str, said: DrainAnswer) -> DrainAnswer:
        """Where a pipeline stands is in its log: whoever has noted its order and come to its limits."""
        assert self.wave is not None
        order, pipeline = self.wave.orders.get(name), self.pipelines[name]
        if order is None or said.number != order.number or name in self.wave.cuts:
            return said
        if not pipeline.has_come(order):
            return said
        asked = asked_of(pipeline, self.random, old=self.faults)
        return DrainAnswer(said.number, cuts.standing(pipeline.last, asked, pipeline.written))

    def _look(self) -> None:
        wave = self.wave
        for pipeline in self.in_order:
            order = pipeline.order
            if order is not None and order.number > self.number:
                require(pipeline.obeys is None, NOT_HELD, order)
        if wave is None or not waves.is_drained(self.graph, wave):
            return
        if not all(one.released for one in wave.orders.values()):
            return
        self._record(wave)
        self.wave = None
        for name, order in wave.orders.items():
            self.pipelines[name].hear(order)

    def _record(self, wave: DrainWave) -> None:
        after = {
            name: cuts.written_after(one.steps, wave.cuts[name].step) for name, one in self.pipelines.items()
        }
        wrong = cuts.in_flight(self.graph, wave.cuts, after)
        require(not wrong or wave.number in self.given_up, NO_FLIGHT, wrong)
        if wrong:
            self.counts["torn, and not recorded"] += 1
            return
        self.counts["cuts"] += 1
        torn = self.recomputed.differing(wave.cuts)
        require(not torn, AS_RECOMPUTED, (torn, wave.cuts))
