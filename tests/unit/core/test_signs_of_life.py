"""A coordinator says its status again and again, so that its silence means something."""

from __future__ import annotations

from kcontrol.core.coordinator.status import STATUS_BEAT_MS
from kcontrol.core.model import Claim, PipelinePhase, Status
from tests.unit.core.drive import CoordinatorDriver, published


def test_the_status_is_said_again_as_a_sign_of_life_by_whoever_is_in_charge_alone() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.tick(STATUS_BEAT_MS)
    now = driver.status
    assert published(Status, driver.tick(STATUS_BEAT_MS - 1)) == []
    assert published(Status, driver.tick(1)) == [now]
    # In an attempt too: it may take long.
    driver.attempt(8, 2)
    assert published(Status, driver.tick(STATUS_BEAT_MS))[0].phase is PipelinePhase.RUNNING
    driver.see(Claim("p", "another", "host", 2))
    assert published(Status, driver.tick(STATUS_BEAT_MS)) == []
