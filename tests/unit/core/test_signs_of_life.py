"""A coordinator says its status again and again, so that its silence means something."""

from __future__ import annotations

from kcontrol.core.coordinator.status import STATUS_BEAT_MS
from kcontrol.core.model import AgentPlacement, Claim, NodeJoin, PipelinePhase, Status
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


def test_a_process_of_an_older_placement_is_nobody_to_a_coordinator() -> None:
    driver = CoordinatorDriver()
    driver.see(NodeJoin("p", 0, "placed", "host", 3, placement=AgentPlacement(1, 20)))
    incarnation = driver.state.view.incarnation(0)
    heard = driver.state.hearing
    driver.tick(1_000)
    driver.see(NodeJoin("p", 0, "late", "host", 4, placement=AgentPlacement(1, 19)))
    assert driver.state.view.incarnation(0) == incarnation
    assert driver.state.hearing == heard, "and no sign of life of the one that it would replace"
