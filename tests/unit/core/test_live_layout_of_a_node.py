"""A layout that is changed while the pipeline runs: what a node makes of it, in whichever order it reads the two logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcontrol.core.events import Exit, Joined
from kcontrol.core.model import CommandKind
from kcontrol.core.node.table import NodeStage
from kcontrol.core.step.layout_change import assigned
from tests.unit.core.drive import NodeDriver, only
from tests.unit.core.made import boundary
from tests.unit.core.test_layout_change import SAVED, given


def test_a_node_ends_its_incarnation_when_it_reads_of_a_live_change_and_not_of_another() -> None:
    driver = NodeDriver(SAVED)
    driver.joined()
    driver.see_step(boundary(1, nodes=2))
    assert [each for each in driver.see_step(given()) if isinstance(each, Exit)] == []
    live = replace(given(number=2), live=True)
    ended = only(Exit, driver.see_step(live))
    assert (ended.relaid, ended.replaced) == (True, False)
    assert "was changed after step 1: there are 2 nodes since" in ended.reason


def reads_the_definition_first() -> NodeDriver:
    """Somebody who was quicker has gone on by a live change, which this node has not read."""
    driver = NodeDriver(SAVED)
    driver.joined()
    driver.see_step(boundary(1, nodes=2))
    assert exits(driver.see(assigned(SAVED, replace(given(), live=True)))) == []
    return driver


def exits(effects: list[Any]) -> list[Exit]:
    return [each for each in effects if isinstance(each, Exit)]


def test_a_node_that_reads_the_definition_by_a_live_change_before_the_change_goes_on_by_that() -> None:
    driver = reads_the_definition_first()
    driver.command(CommandKind.OPEN, 1)
    assert driver.state.at is NodeStage.CLOSED, "nothing is begun by the definition before"
    assert exits(driver.tick(1_000)) == []
    assert only(Exit, driver.see_step(replace(given(), live=True))).relaid


def test_so_does_one_that_has_slept_through_two_of_them() -> None:
    driver = reads_the_definition_first()
    driver.see(assigned(SAVED, replace(given(number=2), live=True)))
    assert only(Exit, driver.see_step(replace(given(), live=True))).relaid


def test_a_definition_by_a_change_that_was_made_between_two_runs_ends_a_node_for_good() -> None:
    driver = reads_the_definition_first()
    assert not only(Exit, driver.see_step(given())).relaid


def test_a_change_that_is_not_read_for_long_is_not_waited_for() -> None:
    driver = reads_the_definition_first()
    assert exits(driver.tick(SAVED.limits.open_timeout_ms - 1)) == []
    ended = only(Exit, driver.tick(1))
    assert not ended.relaid
    assert "is one by change 1 of its layout, which node 0 has not read" in ended.reason


def test_a_node_that_joins_by_the_definition_before_ends_at_once() -> None:
    driver = NodeDriver(SAVED)
    driver.see_step(boundary(1, nodes=2))
    driver.see_step(replace(given(), live=True))
    assert only(
        Exit, driver.feed(Joined(driver.incarnation, (), driver.log.now_ms, driver.log.wall_ms))
    ).relaid


def test_a_node_that_goes_by_it_stays() -> None:
    made = replace(given(), live=True)
    driver = NodeDriver(assigned(SAVED, made))
    driver.see_step(boundary(1, nodes=2))
    driver.see_step(made)
    assert [each for each in driver.joined() if isinstance(each, Exit)] == []
