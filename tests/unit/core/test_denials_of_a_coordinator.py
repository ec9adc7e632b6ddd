"""What Kafka does not allow halts the pipeline and is not tried again before the user says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import Assigned, EndsReached, ProducerReady, ReadToEnds, Resign, TransactionFailed
from kcontrol.core.model import Claim, Desired, DesiredMode, FailureKind, PipelinePhase, Resume, Status
from tests.unit.core.drive import CoordinatorDriver, only, published


@pytest.mark.parametrize("at", ["fencing", "reading", "adding", "committing"])
def test_what_is_not_allowed_halts_until_the_user_asks_again(at: str) -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    if at == "adding":
        driver.receive(8, 2)
    else:
        work = driver.attempt(8, 2)
        driver.write(work, failure=None if at == "committing" else FailureKind.BROKER, error="gone")
    if at == "reading":
        driver.feed(ProducerReady(7, 2, driver.log.now_ms))
    effects = driver.feed(TransactionFailed(FailureKind.DENIED, "grant it", driver.log.now_ms))
    (said,) = published(Status, effects)
    assert (said.phase, said.reason) == (PipelinePhase.HALTED, "grant it")
    assert driver.is_quiet(1_000_000)
    assert ReadToEnds(settled=False) in driver.see(Resume("p", "again"))
    driver.see(
        only(Claim, published(Claim, driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms))))
    )
    driver.ready()
    assert driver.status.phase is not PipelinePhase.HALTED


def test_a_task_that_is_not_allowed_halts_at_once() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.write(driver.attempt(8, 2), failure=FailureKind.DENIED, error="grant it")
    driver.ready()
    assert driver.status.phase is PipelinePhase.HALTED
    assert "grant it" in driver.status.reason


def test_a_newer_claim_ends_who_is_not_allowed() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.receive(8, 2)
    driver.feed(TransactionFailed(FailureKind.DENIED, "grant it", driver.log.now_ms))
    only(Resign, driver.see(Claim("p", "other", "host", 1)))
    assert driver.state.at is State.RESIGNED


def test_who_is_denied_at_once_keeps_what_was_said_before() -> None:
    """Requests that a predecessor has acknowledged stay so, and its halt stays one until somebody resumes."""
    driver = CoordinatorDriver()
    earlier = Status("p", 0, PipelinePhase.HALTED, 7, "a bug", ("r0", "old"), 5, "", (), 3)
    driver.see(Resume("p", "old"))
    driver.see(earlier)
    claim = only(
        Claim, published(Claim, driver.feed(Assigned("c", "host", 1, driver.log.now_ms, driver.log.wall_ms)))
    )
    driver.see(claim)
    effects = driver.feed(TransactionFailed(FailureKind.DENIED, "grant it", driver.log.now_ms))
    (said,) = published(Status, effects)
    assert said == replace(earlier, claim_epoch=said.claim_epoch, reason="grant it")
    driver.see(said)
    driver.see(Desired("p", DesiredMode.RUNNING, "r1"))
    driver.see(
        only(Claim, published(Claim, driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms))))
    )
    driver.ready()
    assert driver.state.asked.acknowledged == ("r0", "old")
    assert driver.status.phase is PipelinePhase.HALTED
    driver.see(Resume("p", "new"))
    assert driver.status.phase is PipelinePhase.STARTING


def test_nothing_is_said_before_it_is_known_who_is_in_charge() -> None:
    driver = CoordinatorDriver()
    driver.see(
        only(
            Claim,
            published(Claim, driver.feed(Assigned("c", "host", 1, driver.log.now_ms, driver.log.wall_ms))),
        )
    )
    driver.feed(ProducerReady(7, 1, driver.log.now_ms))
    driver.feed(TransactionFailed(FailureKind.BROKER, "away", driver.log.now_ms))
    driver.tick(60_000)
    assert driver.state.at is State.FENCING
    assert driver.feed(TransactionFailed(FailureKind.DENIED, "grant it", driver.log.now_ms)) == []
