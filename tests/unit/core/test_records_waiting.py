"""A policy counts the records that wait, over all nodes, and not the offsets of markers,
aborted records and compacted ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import InputArrived
from kcontrol.core.model import Gap, Reason, Received, ReceivedPartition
from kcontrol.core.step.due import Due, due
from kcontrol.core.step.gaps import records_between, with_gap
from tests.unit.core.drive import CoordinatorDriver, NodeDriver, published
from tests.unit.core.made import SPEC, boundary
from tests.unit.core.test_inputs_of_a_coordinator import STATEFUL_ON_TWO, begun, in_place
from tests.unit.core.test_node import opened

TEN = replace(SPEC.policy, min_records=10, max_records=50, max_delay_ms=3_600_000)


def reaches(driver: CoordinatorDriver, to: int, *gaps: Gap, number: int = 0, partition: int = 0) -> list[Any]:
    seen = ReceivedPartition(partition, "T1", 0, to, gaps)
    return driver.see(Received("p", number, driver.incarnations[number], "in", 1, (seen,), 0, 0))


def is_due(driver: CoordinatorDriver) -> bool:
    return driver.state.at is State.ADDING


def test_records_of_all_nodes_are_counted_together() -> None:
    driver = in_place(replace(STATEFUL_ON_TWO, policy=TEN))
    reaches(driver, 5 + 6, number=0)
    assert not is_due(driver)
    reaches(driver, 3, number=1, partition=1)
    assert not is_due(driver)
    reaches(driver, 6, number=1, partition=1)
    assert is_due(driver)
    work = begun(driver)
    assert work.reason is Reason.RECORDS
    assert [(one.partition, one.from_, one.to) for one in work.division] == [(0, 5, 11), (1, 0, 6)]


def test_offsets_without_a_record_do_not_count() -> None:
    driver = in_place(replace(SPEC, policy=TEN))
    reaches(driver, 17, Gap(7, 8, 1), Gap(10, 11, 1), Gap(16, 17, 1))
    assert not is_due(driver)
    reaches(driver, 18, Gap(7, 8, 1), Gap(10, 11, 1), Gap(16, 17, 1))
    assert is_due(driver)
    assert [(one.from_, one.to) for one in begun(driver).division] == [(5, 18), (0, 0)]


def test_a_marker_alone_makes_no_step_and_goes_with_the_next_one() -> None:
    driver = in_place(SPEC)
    reaches(driver, 6, Gap(5, 6, 1))
    driver.tick(SPEC.policy.max_delay_ms + 1)
    assert driver.state.at is State.READY
    reaches(driver, 7, Gap(5, 6, 1))
    assert [(one.from_, one.to) for one in begun(driver).division] == [(5, 7), (0, 0)]


def test_a_marker_does_not_begin_the_delay_of_the_record_after_it() -> None:
    driver = in_place(replace(SPEC, policy=replace(TEN, max_delay_ms=500)))
    reaches(driver, 6, Gap(5, 6, 1))
    driver.tick(400)
    reaches(driver, 7, Gap(5, 6, 1))
    driver.tick(499)
    assert not is_due(driver)
    driver.tick(1)
    assert is_due(driver)


def test_nothing_but_gaps_is_passed_over_after_a_while() -> None:
    """Or retention would take them, and a node that was started since could not tell them from records."""
    driver = in_place(SPEC)
    reaches(driver, 6, Gap(5, 6, 1))
    driver.tick(SPEC.policy.gaps_delay_ms - 1)
    assert not is_due(driver)
    driver.tick(1)
    assert is_due(driver)
    work = begun(driver)
    assert (work.reason, [(one.from_, one.to) for one in work.division]) == (Reason.DELAY, [(5, 6), (0, 0)])


def test_a_long_delay_is_not_made_shorter_by_gaps() -> None:
    policy = replace(TEN, gaps_delay_ms=3_000, max_delay_ms=6_000)
    said = {"waiting": 0, "arrived_ms": None, "last_now_ms": 0, "watermark_moved": False, "step_now_ms": 0}
    assert due(policy, only_gaps_ms=5, now_ms=5 + 3_000, **said) == Due(None, 5 + 6_000)


def test_how_long_gaps_wait_for_a_step_is_the_policys() -> None:
    said = {"waiting": 0, "arrived_ms": None, "last_now_ms": 0, "watermark_moved": False, "step_now_ms": 0}
    policy = replace(TEN, gaps_delay_ms=3_000, max_delay_ms=100)
    assert due(policy, only_gaps_ms=5, now_ms=3_004, **said) == Due(None, 3_005)
    assert due(policy, only_gaps_ms=5, now_ms=3_005, **said) == Due(Reason.DELAY)


def test_a_coordinator_that_takes_over_counts_the_same() -> None:
    driver = CoordinatorDriver(replace(SPEC, policy=TEN))
    driver.see_step(boundary(1))
    driver.join()
    reaches(driver, 18, Gap(5, 9, 4), Gap(16, 17, 1))
    driver.take_over()
    driver.say(command_epoch=-1, command_serial=-1)
    assert driver.state.at is State.READY
    reaches(driver, 20, Gap(5, 9, 4), Gap(16, 17, 1))
    assert is_due(driver)


def test_a_node_says_only_gaps_that_wait_and_counts_what_lies_between() -> None:
    driver = NodeDriver()
    driver.see_step(boundary(1, (5, 0), (9, 1)))
    driver.joined(1)
    opened(driver, 1)
    gaps = (Gap(5, 6, 1), Gap(8, 10, 2), Gap(12, 13, 1))
    seen = (ReceivedPartition(0, "T1", 0, 15, gaps), ReceivedPartition(1, "T1", 0, 1))
    said = published(Received, driver.feed(InputArrived("in", seen, 0, driver.log.now_ms)))[0]
    assert (said.partitions[0].gaps, said.records) == (gaps[1:], 15 - 9 - 2)


@pytest.mark.parametrize("seed", range(20))
def test_gaps_that_were_merged_never_hide_a_record(seed: int) -> None:
    """They may count too many, where a step begins or ends in the middle of a merged one;
    all of them together are exact."""
    random = Random(seed)
    holds = [random.random() < 0.6 for _ in range(400)]
    gaps: tuple[Gap, ...] = ()
    for offset, record in enumerate(holds):
        if not record:
            gaps = with_gap(gaps, Gap(offset, offset + 1, 1), 16)
    assert len(gaps) <= 16
    assert records_between(gaps, 0, len(holds)) == sum(holds)
    for _ in range(50):
        from_, to = sorted((random.randrange(400), random.randrange(400)))
        assert sum(holds[from_:to]) <= records_between(gaps, from_, to) <= to - from_
    whole: tuple[Gap, ...] = ()
    for offset, record in enumerate(holds):
        if not record:
            whole = with_gap(whole, Gap(offset, offset + 1, 1), 400)
    for _ in range(50):
        from_, to = sorted((random.randrange(400), random.randrange(400)))
        assert records_between(whole, from_, to) == sum(holds[from_:to])


def test_ranges_without_reports_count_whole() -> None:
    assert records_between((), 5, 9) == 4
    assert records_between((Gap(0, 100, 3),), 5, 9) == 4
