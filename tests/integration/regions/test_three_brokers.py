"""A region on three brokers, of which one thing is killed at each record of a drain, and of a rollback: a broker, a node,
the pipelines' coordinator, or the controller that writes the record, in turns. Every cut is recomputed from the outer
input."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from kcontrol.adapters.kafka.embedded import EmbeddedCluster
from kcontrol.apps.regions.asking import ask_region, request_of
from kcontrol.core.regions.records import RegionCut, RegionRequestKind
from kcontrol.errors import ClusterError, RetriableError, TopicError
from tests.conftest import TopicFactory
from tests.integration.regions.test_region import LONGEST_DRAIN, has_ended, stopped
from tests.integration.regions.test_rollback import LONGEST_ROLLBACK, Rolled
from tests.integration.regions.three import NAMES
from tests.support.dice import seeded
from tests.support.in_sync import await_in_sync
from tests.support.processes import KcontrolProcess, until
from tests.support.topics import create_topic

TRIES = 10
DEADLINE_S = 240.0
"""A broker that was killed is missed after nine seconds, and more than one thing waits for that."""


_Found = TypeVar("_Found")


def _again(ask: Callable[[], _Found]) -> _Found:
    """Until a broker that was killed is no more in the way."""
    for _ in range(TRIES - 1):
        try:
            return ask()
        except TopicError:
            raise
        except (ClusterError, RetriableError) as error:
            print(f"asked again: {error}")  # noqa: T201 - shown by pytest when a test fails
    return ask()


class OnThree(Rolled):
    """Its brokers are killed, too: what is asked of them meanwhile is asked again."""

    brokers: EmbeddedCluster
    dice: random.Random
    answer_s = DEADLINE_S

    def ask(self) -> RegionCut:
        def once() -> RegionCut:
            request = request_of("all", RegionRequestKind.DRAIN, "a test")
            answer, view = asyncio.run(ask_region(self.settings, request, DEADLINE_S))
            return view.cuts[answer.seq_id]

        return _again(once)

    def roll_back(self, to_cut: int) -> None:
        _again(lambda: super(OnThree, self).roll_back(to_cut))

    def is_any_held(self) -> bool:
        try:
            return super().is_any_held()
        except RetriableError:
            return True

    @contextmanager
    def controller_stopped(self, at: int, asked: Future[Any]) -> Iterator[tuple[KcontrolProcess, bool]]:
        """A controller, and whether it stands at that record; else it was never so far."""
        with self.controller(f"stopping-{at}", at, "SIGSTOP") as process:

            def stands() -> bool:
                assert not has_ended(process), process.text()
                return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED

            until(lambda: stands() or asked.done(), "it stands at its record, or has done all", DEADLINE_S)
            until(lambda: stands() or not self.is_any_held(), "it stands, or has let go", DEADLINE_S)
            yield process, stands()

    def kill_a_broker(self) -> None:
        self.brokers.brokers[self.dice.choice(sorted(self.brokers.brokers))].kill()

    def bring_back(self) -> None:
        """Every broker, and every replica: else the next kill might be that of the last copy."""
        self.brokers.start()
        await_in_sync(self.settings.bootstrap_servers, DEADLINE_S)


@pytest.fixture
def on_three(whole_cluster3: EmbeddedCluster, tmp_path: Path) -> OnThree:
    settings, numbers = whole_cluster3.settings, count()

    def topics(stem: str = "topic", partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"{stem}-{tmp_path.name}-{next(numbers)}"
        create_topic(settings, name, partitions, config)
        return name

    factory: TopicFactory = topics
    region = OnThree(settings, tmp_path, factory)
    region.brokers, region.dice = whole_cluster3, seeded()
    return region


@pytest.mark.heavy
@pytest.mark.timeout(4_800)
@pytest.mark.parametrize("first", range(5))
def test_whatever_is_killed_at_a_record_of_a_drain_the_cut_is_one(on_three: OnThree, first: int) -> None:
    """first: of five victims, who is killed at the first record. In all five runs each is killed at every record."""
    region, cuts = on_three, list[int]()
    with region.running() as processes, region.flowing(0.5), ThreadPoolExecutor(1) as asking:
        region.until_all_have_made_a_step()
        region.apply(trigger="operator_driven", max_reset_attempts=10_000)
        five: Sequence[Callable[[KcontrolProcess], None]] = (
            lambda _: region.kill_a_broker(),
            KcontrolProcess.kill,
            lambda _: processes["coordinator"].restart(),
            lambda _: region.kill_a_broker(),
            lambda _: processes[region.dice.choice(NAMES)].restart(),
        )
        victims = cycle((*five[first:], *five[:first]))
        for at in range(1, LONGEST_DRAIN):
            drained = asking.submit(region.ask)
            with region.controller_stopped(at, drained) as (controller, stands):
                if stands:
                    next(victims)(controller)
                if has_ended(controller):
                    with region.controlled(f"next-{at}") as successor:
                        cut = drained.result(DEADLINE_S)
                        region.until_nobody_is_held()
                        stopped(successor)
                else:
                    if stands:
                        controller.resume()
                    cut = drained.result(DEADLINE_S)
                    region.until_nobody_is_held()
                    stopped(controller)
            region.bring_back()
            cuts.append(region.kept(cut))
            region.check_log()
            if not stands:
                break
        else:
            raise AssertionError(f"a drain is never over within {LONGEST_DRAIN} records")
    assert cuts == sorted(set(cuts)), "no number is used twice"
    assert len(cuts) > 10, cuts


@pytest.mark.heavy
@pytest.mark.timeout(4_800)
@pytest.mark.parametrize("first", ["controller", "broker"])
def test_whatever_is_killed_at_a_record_of_a_rollback_all_are_back(on_three: OnThree, first: str) -> None:
    """first: who is killed at the first record. In both runs each is killed at every record."""
    region = on_three
    victims: cycle[Callable[[KcontrolProcess], None]] = cycle(
        (KcontrolProcess.kill, lambda _: region.kill_a_broker())
    )
    if first == "broker":
        next(victims)
    region.apply(period="500 ms")
    targets = region.make_cuts(LONGEST_ROLLBACK)[:-1]
    with ThreadPoolExecutor(1) as asking:
        for at in range(1, LONGEST_ROLLBACK):
            target = targets.pop()
            asked = asking.submit(region.roll_back, target)
            with region.controller_stopped(at, asked) as (controller, stands):
                if not stands:
                    asked.result(DEADLINE_S)
                    region.check_back(target)
                    break
                over = region.is_back(target)
                next(victims)(controller)
                if has_ended(controller):
                    with region.controlled(f"next-{at}") as successor:
                        asked.result(DEADLINE_S)
                        stopped(successor)
                else:
                    controller.resume()
                    asked.result(DEADLINE_S)
                    stopped(controller)
            region.bring_back()
            region.check_back(target)
            region.check_log()
            if over:
                break
        else:
            raise AssertionError(f"a rollback is never over within {LONGEST_ROLLBACK} records")
    assert at > 12, at
    with region.controlled("last") as last, region.running(), region.flowing():
        for name in NAMES:
            region.until_read_beyond(name, 0)
        assert region.drain().follows == target
        stopped(last)
