"""What nodes say they have read shows a coordinator that a broker which was behind has told
it the end of the log of steps."""

from __future__ import annotations

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import CommitStep, InitProducer, ProducerReady, ReadToEnds
from kcontrol.core.model import NodePhase, Replaying, StepBoundary
from tests.unit.core.drive import CoordinatorDriver, only


def _committed() -> StepBoundary:
    """Step 1, as another coordinator has committed it."""
    other = CoordinatorDriver()
    other.in_place()
    return only(CommitStep, other.write(other.attempt(8, 2))).boundary


def _says(driver: CoordinatorDriver, evidence: str) -> list[object]:
    if evidence == "replays":
        return driver.see(Replaying("p", 0, driver.incarnations[0], 1))
    if evidence == "runs again":
        return driver.say(phase=NodePhase.RUNNING)
    return driver.say(step=1) if evidence == "holds" else driver.say(checkpoint=1)


@pytest.mark.parametrize("evidence", ["holds", "replays", "runs again", "checkpoint"])
def test_it_reads_again_and_decides_nothing_before(evidence: str) -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    assert _says(driver, evidence) == []
    assert driver.state.at is State.BACKING_OFF
    assert driver.state.trouble.failure is not None
    assert "node 0 has read" in driver.state.trouble.failure.text
    assert driver.receive(8, 2) == []
    assert driver.tick(1_000) == [InitProducer(60_000)]
    assert driver.feed(ProducerReady(7, 9, driver.log.now_ms)) == [ReadToEnds(settled=True)]


def test_it_goes_on_when_it_has_read_what_the_node_has() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.say(step=1)
    driver.tick(1_000)
    driver.see_step(_committed())
    driver.ready()
    driver.say()
    assert driver.state.at is State.READY
    assert driver.state.trouble.failure is None


def test_it_asks_again_at_a_steady_pace_while_the_broker_is_behind() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.say(step=1)
    for _ in range(8):
        assert driver.tick(1_000) == [InitProducer(60_000)]
        driver.ready()
        assert driver.state.at is State.BACKING_OFF
    assert not driver.state.trouble.halt


def test_a_former_incarnation_proves_nothing() -> None:
    """Its log of steps may have been another: what counts is what the node that is there now has read."""
    driver = CoordinatorDriver()
    driver.in_place()
    driver.say(step=1)
    driver.join()
    driver.tick(1_000)
    driver.ready()
    driver.say(phase=NodePhase.CLOSED)
    assert driver.state.at is State.ASSEMBLING
