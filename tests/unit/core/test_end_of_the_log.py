"""Where a coordinator takes the log of steps to end, and what rests on it."""

from __future__ import annotations

from kcontrol.core.events import (
    CommitStep,
    EndsReached,
    InitProducer,
    PartitionsAdded,
    ProducerReady,
    TransactionFailed,
)
from kcontrol.core.model import Command, FailureKind
from tests.unit.core.drive import CoordinatorDriver, only, published


def test_a_step_and_a_second_try_at_it_have_to_lie_where_the_log_was_read_to() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    assert only(CommitStep, driver.write(driver.attempt(8, 2))).expected_offset == driver.log.steps_end
    driver.feed(TransactionFailed(FailureKind.BROKER, "it came to lie elsewhere", driver.log.now_ms))
    assert driver.tick(1_000) == [InitProducer(60_000)]
    driver.feed(ProducerReady(7, 2, driver.log.now_ms))
    driver.feed(EndsReached(driver.log.steps_end + 3, driver.log.now_ms))
    driver.say()
    (step,) = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert step.work is not None
    driver.say(attempt=step.work.token)
    assert only(CommitStep, driver.write(step.work)).expected_offset == driver.log.steps_end + 3
