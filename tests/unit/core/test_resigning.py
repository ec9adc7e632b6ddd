"""A coordinator that is replaced, assigned again and replaced again, with requests of
earlier tenures still unanswered."""

from __future__ import annotations

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import Assigned, InitProducer, ProducerReady, Resign
from kcontrol.core.log.keys import claim_key
from kcontrol.core.model import Claim, Tombstone
from tests.unit.core.drive import CoordinatorDriver, only, published

OTHER = Claim("p", "other", "host", 1)


def claimed_with_an_answer_overdue() -> CoordinatorDriver:
    """It was replaced while InitProducer was under way, is in charge again, and has read its own claim."""
    driver = CoordinatorDriver()
    assigned = Assigned("c", "host", 1, driver.log.now_ms, driver.log.wall_ms)
    only(InitProducer, driver.see(published(Claim, driver.feed(assigned))[0]))
    only(Resign, driver.see(OTHER))
    own = published(Claim, driver.feed(assigned))[0]
    assert driver.see(own) == []
    assert driver.state.at is State.CLAIMING
    return driver


def test_it_resigns_if_its_own_claim_was_forgotten_and_compacted_away_before_it_was_read() -> None:
    driver = CoordinatorDriver()
    claim = published(Claim, driver.feed(Assigned("c", "host", 1, driver.log.now_ms, driver.log.wall_ms)))[0]
    assert driver.see(OTHER) == []
    assert driver.see(Tombstone(claim_key("p", "another"))) == []
    resign = only(Resign, driver.see(Tombstone(claim_key("p", claim.uuid))))
    assert resign.reason == "another coordinator has claimed pipeline p since"
    assert driver.state.at is State.RESIGNED


def test_it_fences_when_the_overdue_answer_has_come() -> None:
    driver = claimed_with_an_answer_overdue()
    only(InitProducer, driver.feed(ProducerReady(7, 1, driver.log.now_ms)))


def test_it_resigns_if_it_is_replaced_again_before_the_overdue_answer_has_come() -> None:
    driver = claimed_with_an_answer_overdue()
    only(Resign, driver.see(OTHER))
    assert driver.state.at is State.RESIGNED
    assert driver.feed(ProducerReady(7, 1, driver.log.now_ms)) == []
    own = published(Claim, driver.feed(Assigned("c", "host", 1, driver.log.now_ms, driver.log.wall_ms)))[0]
    only(InitProducer, driver.see(own))
