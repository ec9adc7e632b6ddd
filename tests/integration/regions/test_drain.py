"""Three real pipelines that read each other's topics are drained while records flow: what each had written at a cut follows
from the outer input before it, record by record; and a drain that is killed holds nobody."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from kcontrol.apps.drain import DrainedStep, drain
from kcontrol.errors import RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S, Chain
from tests.support.processes import KcontrolProcess, run_kcontrol, until
from tests.support.relay_node import values_of

PARTITIONS = 2
NAMES = ("enrich", "totals", "alerts")


class Region(Chain):
    """`enrich` reads `orders`; `totals` what it writes, and `prices`; `alerts` what both write."""

    def __init__(self, settings: ClusterSettings, home: Path, new_topic: TopicFactory) -> None:
        super().__init__(settings, home)
        made = ("orders", "prices", "enriched", "totals", "alerts")
        self.topics = {name: new_topic(name, partitions=PARTITIONS) for name in made}
        self.submit("enrich", [self.topics["orders"]], self.topics["enriched"])
        self.submit("totals", [self.topics["enriched"], self.topics["prices"]], self.topics["totals"])
        self.submit("alerts", [self.topics["enriched"], self.topics["totals"]], self.topics["alerts"])

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Records come all the time, faster into one partition than into the other."""
        stop = Event()

        def produce() -> None:
            number = 0
            while not stop.wait(0.1):
                for topic in ("orders", "prices"):
                    for partition in range(PARTITIONS):
                        values = [f"{topic}-{partition}-{number}-{each}" for each in range(1 + 4 * partition)]
                        self.produce(self.topics[topic], partition, *values)
                number += 1

        thread = Thread(target=produce)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

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
        """What lies in each topic up to the cut is what the outer input before it leads to."""
        cuts = {one.pipeline: one.cut for one in found}
        expected = {
            topic: self._values(
                topic, {place: to for cut in cuts.values() for place, to in cut.positions.items()}
            )
            for topic in ("orders", "prices")
        }
        for name, reads, writes in (
            ("enrich", ("orders",), "enriched"),
            ("totals", ("enriched", "prices"), "totals"),
            ("alerts", ("enriched", "totals"), "alerts"),
        ):
            rows = sum((expected[topic] for topic in reads), Counter[bytes]())
            expected[writes] = Counter({name.encode() + b":" + row: count for row, count in rows.items()})
            assert self._values(writes, cuts[name].ends) == expected[writes]
        assert expected["alerts"], "something has gone through all of them"

    def _values(self, topic: str, ends: dict[tuple[str, int], int]) -> Counter[bytes]:
        name = self.topics[topic]
        return Counter(
            value
            for (each, partition), end in ends.items()
            if each == name
            for value in values_of(self.settings, name, partition, 0, end)
        )


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_cuts_of_three_pipelines_are_what_the_outer_input_leads_to(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    region = Region(settings, tmp_path, topic_factory)
    with region.running() as processes, region.flowing():
        region.until_all_have_made_a_step()
        before: dict[str, int] = {}
        for killed in (None, "totals", None):
            if killed is not None:
                processes[killed].restart()
            found = asyncio.run(drain(region.settings, NAMES, PATIENCE_S))
            region.check(found)
            steps = {one.pipeline: one.boundary.step for one in found}
            assert all(step > before.get(name, 0) for name, step in steps.items()), (before, steps)
            before = steps

        # One that does not come to its limits ends the drain, and nobody stays held.
        processes["totals"].kill()
        with pytest.raises(RetriableError, match="these were waited for: totals"):
            asyncio.run(drain(region.settings, NAMES, 15))
        region.until_read_beyond("enrich", before["enrich"])

        # Whoever drains is killed while it holds one, which waits for `totals`: it goes on once the lease is over.
        arguments = ("cut", *NAMES, "--drain", "--json")
        with KcontrolProcess(*arguments, log=tmp_path / "drain.log", cwd=tmp_path) as draining:
            until(lambda: region.is_any_held(), "one is held", PATIENCE_S)
            with pytest.raises(NotNowError, match="'enrich' is held by"):
                asyncio.run(drain(region.settings, NAMES, PATIENCE_S))
            draining.kill()
        processes["totals"].start()
        again: list[tuple[DrainedStep, ...]] = []

        def drained() -> bool:
            try:
                again.append(asyncio.run(drain(region.settings, NAMES, PATIENCE_S)))
            except NotNowError:
                return False
            return True

        until(drained, "it can be drained again", PATIENCE_S)
        region.check(again[0])

        printed = run_kcontrol(*arguments, cwd=tmp_path, timeout_s=120)
        assert printed.returncode == 0, printed.stderr
        assert [json.loads(line)["pipeline"] for line in printed.stdout.splitlines()] == list(NAMES)
