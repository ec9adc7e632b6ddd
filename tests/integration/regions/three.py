"""Three real pipelines that read each other's topics, one with two inputs and state, and the recomputation of what they had
written at a cut, record by record, from the outer input before it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from threading import Event

from bench.regions.relay import values_of
from kcontrol.apps.drain import DrainedStep
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.log.resets import resets_in
from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.cut import PipelineCut, Place
from kcontrol.core.regions.records import CutOffset, RegionCut
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S, Chain
from tests.integration.regions.explaining import explained
from tests.support.processes import until
from tests.support.tallies import counted

PARTITIONS = 2
NAMES = ("enrich", "totals", "alerts")


class ThreePipelines(Chain):
    """`enrich` reads `orders`; `totals` counts what it writes, and `prices`; `alerts` reads what both write."""

    def __init__(self, settings: ClusterSettings, home: Path, new_topic: TopicFactory) -> None:
        super().__init__(settings, home)
        made = ("orders", "prices", "enriched", "totals", "alerts")
        self.topics = {name: new_topic(name, partitions=PARTITIONS) for name in made}
        self.submit("enrich", [self.topics["orders"]], self.topics["enriched"])
        self.submit(
            "totals", [self.topics["enriched"], self.topics["prices"]], self.topics["totals"], counts=True
        )
        self.submit("alerts", [self.topics["enriched"], self.topics["totals"]], self.topics["alerts"])

    @contextmanager
    def flowing(self, every_s: float = 0.1) -> Iterator[None]:
        """Records come all the time, faster into one partition than into the other."""
        stop = Event()

        def produce() -> None:
            number = 0
            while not stop.wait(every_s):
                for topic in ("orders", "prices"):
                    for partition in range(PARTITIONS):
                        values = [f"{topic}-{partition}-{number}-{each}" for each in range(1 + 4 * partition)]
                        self.produce(self.topics[topic], partition, *values)
                number += 1

        with ThreadPoolExecutor(1) as thread:
            flow = thread.submit(produce)
            try:
                yield
            finally:
                stop.set()
            flow.result()

    def until_all_have_made_a_step(self) -> None:
        for name in NAMES:
            until(lambda name=name: self.look(name)[1] is not None, f"{name} has made a step", PATIENCE_S)

    def until_read_beyond(self, name: str, step: int) -> None:
        """It has made another step, which was not begun before it was looked at first."""
        last = self.look(name)[1]
        least = max(step, 0 if last is None else last.step) + 1
        until(
            lambda: (made := self.look(name)[1]) is not None and made.step > least,
            f"{name} goes on",
            PATIENCE_S,
        )

    def check(self, found: tuple[DrainedStep, ...]) -> None:
        """What was drained is a cut."""
        self.check_cut({one.pipeline: one.cut for one in found})

    def check_kept(self, cut: RegionCut) -> None:
        """What is kept in a region's log is one."""

        def places(offsets: tuple[CutOffset, ...]) -> dict[Place, int]:
            return {(each.topic, each.partition): each.offset for each in offsets}

        self.check_cut(
            {
                one.pipeline: PipelineCut(one.step, places(one.positions), places(one.ends))
                for one in cut.pipelines
            }
        )

    def check_cut(self, cuts: Mapping[str, PipelineCut]) -> None:
        """What lies in each topic up to the cut, but for what is void, is what the outer input before it leads to: numbers
        too, as if what is void had never been."""
        read = {place: to for cut in cuts.values() for place, to in cut.positions.items()}
        orders, prices = self._rows("orders", read), self._rows("prices", read)
        enriched = {partition: _passed_on("enrich", rows) for partition, rows in orders.items()}
        totals = [counted("totals", rows)[0] for topic in (enriched, prices) for rows in topic.values()]
        expected: Mapping[str, Iterable[list[bytes]]] = {
            "enrich": enriched.values(),
            "totals": totals,
            "alerts": [_passed_on("alerts", rows) for rows in (*enriched.values(), *totals)],
        }
        for (name, rows), topic in zip(expected.items(), ("enriched", "totals", "alerts"), strict=True):
            found = _all(self._rows(topic, cuts[name].ends, self.void_steps(name)).values())
            wanted = _all(rows)
            if found != wanted:
                why = explained(self.settings, cuts, {each: self.boundaries(each) for each in NAMES})
                raise AssertionError(
                    f"{topic}: too many {found - wanted}, missing {wanted - found}; {cuts}\n{why}"
                )
        assert wanted, "something has gone through all of them"

    def boundaries(self, name: str) -> list[StepBoundary]:
        """Of all its steps."""

        async def read() -> list[StepBoundary]:
            async with pipeline_logs(self.settings, name) as logs:
                found = await logs.read_steps(1, None)
                return [each.record for each in found if isinstance(each.record, StepBoundary)]

        return asyncio.run(read())

    def void_steps(self, name: str) -> set[int]:
        return {step for each in resets_in(self.boundaries(name)) for step in each.steps}

    def _rows(
        self, topic: str, ends: Mapping[Place, int], without: Container[int] = ()
    ) -> dict[int, list[bytes]]:
        """By partition, in the order of their offsets."""
        name = self.topics[topic]
        return {
            partition: list(values_of(self.settings, name, partition, 0, end, without))
            for (each, partition), end in ends.items()
            if each == name
        }


def _passed_on(name: str, rows: Iterable[bytes]) -> list[bytes]:
    return [name.encode() + b":" + row for row in rows]


def _all(partitions: Iterable[Iterable[bytes]]) -> Counter[bytes]:
    return Counter(chain.from_iterable(partitions))
