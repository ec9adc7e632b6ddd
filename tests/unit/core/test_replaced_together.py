"""Nodes of a pipeline that runs that other processes are to be: several in one change, and one after the other as `kcontrol
upgrade --way replace` asks for them."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import CheckpointCommitted, CommitCheckpoint, PartitionsAdded
from kcontrol.core.model import Assignment, LayoutPhase, LayoutReady, LayoutRequest, PipelineSpec, UpgradeWay
from kcontrol.core.step.assignment import owners_of
from kcontrol.core.step.layout_change import assigned
from kcontrol.views.upgrades import UpgradePart, first_turn, turn_of
from tests.unit.core.drive import CoordinatorDriver, only
from tests.unit.core.made import boundary, checkpoint
from tests.unit.core.test_live_layout import WIDE, running, told

_TIMEOUT_MS = 60_000


def _come(driver: CoordinatorDriver, node: int, request_id: str = "l1") -> list[object]:
    """The process that waits to be the node has copied the checkpoint."""
    return driver.see(
        LayoutReady("p", node, f"new-{node}", 8, f"new-{node}", request_id, 1, 9, 9, "", driver.log.end)
    )


def _made(driver: CoordinatorDriver) -> Assignment:
    """The record that is about to be committed."""
    made = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms))).assignment
    assert made is not None
    return made


def test_all_nodes_are_replaced_in_one_change_once_all_who_take_their_places_are_ready() -> None:
    driver = running(saved=True)
    driver.see(LayoutRequest("p", "l1", 1, 2, _TIMEOUT_MS, (0, 1)))
    assert "waiting for node 0, 1 to make ready: start kcontrol node --node 0 --instead" in told(driver).text
    _come(driver, 0)
    assert "waiting for node 1 to make ready: start kcontrol node --node 1 --instead" in told(driver).text
    assert driver.state.at is State.READY
    _come(driver, 1)
    made = _made(driver)
    assert (made.nodes, made.replaced) == (2, (0, 1))
    assert (made.owners, made.moved_shards, made.moved_bytes) == (owners_of(WIDE), 0, 18)


def test_some_of_the_nodes_are_replaced_in_one_change_and_the_others_make_ready_beside() -> None:
    three = replace(WIDE, nodes=3, inputs=(replace(WIDE.inputs[0], node_of=(0, 1, 2)),), layout=WIDE.layout)
    driver = CoordinatorDriver(three)
    driver.see_step(boundary(1, nodes=3))
    driver.see_step(checkpoint(1, 3))
    driver.take_over()
    for node in range(3):
        driver.join(node)
        driver.say(node)
    driver.see(LayoutRequest("p", "l1", 1, 3, _TIMEOUT_MS, (0, 2)))
    _come(driver, 0)
    assert "waiting for node 1, 2 to make ready" in told(driver).text
    _come(driver, 2)
    assert "waiting for node 1 to make ready" in told(driver).text
    _come(driver, 1)
    made = _made(driver)
    assert (made.nodes, made.replaced, made.owners) == (3, (0, 2), owners_of(three))


def test_if_one_of_those_who_come_can_not_be_the_node_nobody_is_replaced() -> None:
    driver = running(saved=True)
    driver.see(LayoutRequest("p", "l1", 1, 2, _TIMEOUT_MS, (0, 1)))
    _come(driver, 0)
    driver.see(LayoutReady("p", 1, "new-1", 8, "new-1", "l1", 0, 0, -1, "no Java", 1))
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert "node 1 (process 8 on new-1) can't go on by it: no Java" in told(driver).text
    assert driver.state.at is State.READY


def test_an_upgrade_by_replacing_is_made_node_by_node_and_nothing_ever_moves() -> None:
    driver, spec, nodes = running(saved=True), WIDE, []
    newest, fate = None, None
    while newest is None or newest.left:
        turn = first_turn(UpgradeWay.REPLACE, (), newest, fate, spec.nodes)
        assert turn.part is UpgradePart.REPLACE
        number = spec.assignment + 1
        newest = LayoutRequest(
            *("p", f"l{number}", number, turn.nodes_after, _TIMEOUT_MS, (turn.node,)),
            way=UpgradeWay.REPLACE.value,
            left=turn.left,
            whole=turn.whole,
        )
        assert turn_of(newest, spec.nodes) == turn
        driver.see(newest)
        for node in range(spec.nodes):
            _come(driver, node, newest.request_id)
        made = _made(driver)
        nodes.append(made.replaced)
        assert (made.number, made.nodes, made.moved_shards) == (number, 2, 0)
        assert made.owners == owners_of(WIDE)
        spec = _go_on(driver, spec, made)
        fate = told(driver).phase
        assert fate is LayoutPhase.DONE
    assert nodes == [(0,), (1,)]


def _go_on(driver: CoordinatorDriver, spec: PipelineSpec, made: Assignment) -> PipelineSpec:
    """All read the record, and go on by it; nobody has made a step since."""
    driver.see_step(made)
    driver.feed(CheckpointCommitted(0, driver.log.now_ms))
    driver.ready()
    plain = replace(WIDE, compatible_with=(*spec.compatible_with, spec.fingerprint))
    spec = assigned(plain, made)
    driver.see(spec)
    for node in range(spec.nodes):
        driver.join(node)
        driver.say(node)
    assert driver.state.at is State.READY
    return spec
