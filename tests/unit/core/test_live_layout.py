"""Another number of nodes for a pipeline that runs: what the coordinator waits for, records and answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import CheckpointCommitted, CommitCheckpoint, PartitionsAdded
from kcontrol.core.model import (
    CheckpointPart,
    Claim,
    Command,
    CommandKind,
    Desired,
    DesiredMode,
    LayoutPhase,
    LayoutReady,
    LayoutRequest,
    LayoutStatus,
    NodePhase,
    PipelinePhase,
    PipelineSpec,
    Status,
)
from kcontrol.core.step.layout_change import assigned
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import boundary, checkpoint
from tests.unit.core.test_layout_change import SAVED, given
from tests.unit.core.test_resets import reset

_TIMEOUT_MS = 60_000
_BEAT_MS = 500
WIDE = replace(
    SAVED,
    inputs=(replace(SAVED.inputs[0], start_offsets=(0,) * 3, node_of=(0, 1, 0)),),
    outputs=(replace(SAVED.outputs[0], partitions=3),),
)


def running(steps: int = 1, saved: bool = False, spec: PipelineSpec = WIDE) -> CoordinatorDriver:
    """Two nodes, open at the last step."""
    driver = CoordinatorDriver(spec)
    for step in range(1, steps + 1):
        driver.see_step(boundary(step, nodes=2))
    if saved:
        driver.see_step(checkpoint(steps, 2))
    driver.take_over()
    for node in range(2):
        driver.join(node)
        driver.say(node)
    assert driver.state.at is State.READY
    return driver


def ask(driver: CoordinatorDriver, number: int = 1, nodes: int = 3, request_id: str = "l1") -> list[Any]:
    return driver.see(LayoutRequest("p", request_id, number, nodes, _TIMEOUT_MS))


def ready(
    driver: CoordinatorDriver, copied_step: int = 0, request_id: str = "l1", **changes: Any
) -> list[Any]:
    """All three who are to be nodes say so."""
    effects: list[Any] = []
    for node in range(3):
        said = LayoutReady("p", node, "h", 7, f"u{node}", request_id, copied_step, 5, 10, "", driver.log.end)
        effects += driver.see(replace(said, **changes) if node == 2 else said)
    return effects


def part(driver: CoordinatorDriver, node: int, command: Command, error: str = "") -> list[Any]:
    said = CheckpointPart(
        *("p", node, driver.incarnations[node], command.claim_epoch, command.serial, command.step),
        *(f"m{node}", 1, 10, error),
    )
    return driver.see(said)


def told(driver: CoordinatorDriver) -> LayoutStatus:
    assert driver.status.layout is not None
    return driver.status.layout


def to_save(effects: list[Any]) -> list[Command]:
    return [each for each in published(Command, effects) if each.kind is CommandKind.CHECKPOINT]


def save(driver: CoordinatorDriver, commands: list[Command]) -> list[Any]:
    """The nodes pin the step and save it."""
    assert [each.node for each in commands] == [0, 1]
    for node in range(2):
        driver.say(node)
    part(driver, 0, commands[0])
    return part(driver, 1, commands[1])


def switching() -> CoordinatorDriver:
    """All have copied the checkpoint of step 1, and step 2 is to be the last by the layout before."""
    driver = running(saved=True)
    ask(driver)
    ready(driver)
    ready(driver, copied_step=1)
    return driver


def held() -> tuple[CoordinatorDriver, list[Command]]:
    """All have copied, no step is made, and the nodes were told to save step 2."""
    driver = running(saved=True)
    ask(driver)
    ready(driver)
    driver.see_step(boundary(2, (6, 1), (7, 2), nodes=2))
    for node in range(2):
        driver.say(node)
    effects = ready(driver, copied_step=1)
    assert told(driver).phase is LayoutPhase.SWITCHING
    return driver, to_save(effects)


def nodes_alone_speak(driver: CoordinatorDriver) -> None:
    """For as long as makes others silent, and it is listened all the time."""
    for _ in range(WIDE.limits.heartbeat_timeout_ms // _BEAT_MS):
        driver.log.now_ms += _BEAT_MS
        for node in range(2):
            driver.say(node)


def goes_on(driver: CoordinatorDriver) -> bool:
    """Whether steps are made when there is input."""
    driver.receive(19, 10, 13)
    driver.receive(19, 10, 13, number=1)
    return driver.state.at is State.ADDING


def test_behind_a_reset_it_is_refused_until_there_is_a_step_to_save() -> None:
    driver = CoordinatorDriver(WIDE)
    first, second = boundary(1, (5, 0), (6, 1), nodes=2), boundary(2, (6, 1), (7, 2), nodes=2)
    for each in (first, second, reset(second, first)):
        driver.see_step(each)
    driver.take_over()
    for node in range(2):
        driver.join(node)
        driver.say(node)
    ask(driver)
    assert told(driver).phase is LayoutPhase.REFUSED
    assert "the last step of pipeline p, 3, is a reset: ask again after the next one" in told(driver).text


def test_it_waits_for_all_who_are_to_be_nodes_and_says_for_whom() -> None:
    driver = running()
    ask(driver)
    assert told(driver).phase is LayoutPhase.WAITING
    assert "waiting for node 0, 1, 2 to make ready: start kcontrol node --node 2 --new" in told(driver).text


def test_then_a_checkpoint_is_made_and_steps_go_on_while_it_is_copied() -> None:
    driver = running()
    ask(driver)
    effects = ready(driver)
    save(driver, to_save(effects))
    made = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert made.assignment is None
    assert made.checkpoint is not None
    driver.see_step(made.checkpoint)
    driver.feed(CheckpointCommitted(1, driver.log.now_ms))
    driver.ready()
    for node in range(2):
        driver.say(node)
    assert (told(driver).phase, told(driver).step) == (LayoutPhase.COPYING, 1)
    assert (told(driver).copied_bytes, told(driver).total_bytes) == (15, 30)
    assert driver.state.at is State.READY
    driver.receive(9, 0, 3)
    driver.receive(9, 0, 3, number=1)
    assert driver.state.at is State.ADDING


def test_while_a_checkpoint_is_copied_none_is_made_by_the_clock_that_might_take_its_place() -> None:
    often = replace(WIDE, checkpoint=replace(WIDE.checkpoint, every_ms=5_000))
    begun = {}
    for is_copied in (False, True):
        driver = running(saved=True, spec=often)
        if is_copied:
            ask(driver)
            ready(driver)
            assert told(driver).phase is LayoutPhase.COPYING
        driver.see_step(boundary(2, (6, 1), (7, 2), nodes=2))
        driver.log.now_ms += 5_000
        effects = [*driver.say(0), *driver.say(1)]
        begun[is_copied] = {each.kind for each in published(Command, effects)}
    assert begun == {False: {CommandKind.CHECKPOINT}, True: set()}


def test_the_change_is_recorded_alone_over_a_checkpoint_of_the_last_step() -> None:
    driver = switching()
    assert driver.state.at is State.ADDING_LOG
    made = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert made.checkpoint is None
    assert made.assignment is not None
    assert (made.assignment.number, made.assignment.step, made.assignment.nodes) == (1, 1, 3)
    assert (made.assignment.live, made.assignment.request_id) == (True, "l1")
    driver.see_step(made.assignment)
    driver.feed(CheckpointCommitted(0, driver.log.now_ms))
    driver.ready()
    assert (told(driver).phase, told(driver).step) == (LayoutPhase.DONE, 1)
    assert "has 3 nodes since, which go on by it now" in driver.status.reason


def test_no_step_is_made_once_all_have_copied_and_both_are_recorded_in_one_transaction() -> None:
    driver, commands = held()
    assert not goes_on(driver)
    assert (driver.state.at, told(driver).phase) == (State.READY, LayoutPhase.SWITCHING)
    save(driver, commands)
    made = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert made.checkpoint is not None
    assert made.assignment is not None
    assert (made.checkpoint.step, made.assignment.step) == (2, 2)


def test_what_was_said_for_another_request_or_long_ago_does_not_count() -> None:
    driver = running(saved=True)
    ask(driver)
    ready(driver, copied_step=1, request_id="l0")
    assert "waiting for node 0, 1, 2" in told(driver).text
    ready(driver)
    nodes_alone_speak(driver)
    assert "waiting for node 0, 1, 2" in told(driver).text


def test_a_request_is_made_as_the_change_that_it_names_or_not_at_all() -> None:
    driver = running(saved=True)
    ask(driver, number=2)
    assert told(driver).phase is LayoutPhase.REFUSED
    assert "change 2 of the layout was asked for, and the next one would be 1" in told(driver).text


def test_an_answer_is_remembered_by_whoever_takes_over() -> None:
    driver = running(saved=True)
    ask(driver, nodes=2)
    status = driver.status
    assert status.layout is not None
    assert status.layout.phase is LayoutPhase.REFUSED
    next_one = CoordinatorDriver(WIDE)
    next_one.see_step(boundary(1, nodes=2))
    next_one.see_step(checkpoint(1, 2))
    ask(next_one, nodes=2)
    next_one.see(status)
    next_one.take_over()
    assert next_one.status.layout == status.layout


@pytest.mark.parametrize("late", [False, True])
def test_what_was_given_up_is_not_made_though_one_replaced_before_has_written_over_that(late: bool) -> None:
    """Coordinators c1 and c2 claim; c2 gives the change up, and dies. c1, which slept, says that it waits: before c2 has
    claimed, or after all."""
    driver = CoordinatorDriver(WIDE)
    driver.see_step(boundary(1, nodes=2))
    driver.see_step(checkpoint(1, 2))
    waits = LayoutStatus("l1", LayoutPhase.WAITING, 3, 0, 0, 0, 0, 0, "")
    by_first = Status(*("p", driver.log.end, PipelinePhase.RUNNING, 1, "", (), 0, "", ()), layout=waits)
    driver.see(Claim("p", "c1", "h", 1))
    ask(driver)
    driver.see(by_first)
    by_second = replace(
        by_first,
        claim_epoch=driver.log.end,
        layout=replace(waits, phase=LayoutPhase.GIVEN_UP, text="too late"),
    )
    driver.see(Claim("p", "c2", "h", 2))
    if late:
        driver.see(by_second)
        driver.see(by_first)
    driver.take_over()
    for node in range(2):
        driver.join(node)
        driver.say(node)
    ready(driver)
    assert told(driver).request_id == "l1"
    assert told(driver).phase is (LayoutPhase.REFUSED if late else LayoutPhase.COPYING)
    assert ("nothing was changed; ask again" in told(driver).text) is late
    ask(driver, request_id="l2")
    ready(driver, request_id="l2")
    assert (told(driver).request_id, told(driver).phase) == ("l2", LayoutPhase.COPYING)


def test_a_pause_and_an_error_of_a_process_end_it_and_steps_go_on() -> None:
    driver = running(saved=True)
    ask(driver)
    ready(driver, error="its definition is another one")
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert "node 2 (process 7 on h) can't go on by it: its definition is another one" in told(driver).text
    ask(driver, request_id="l2")
    driver.see(Desired("p", DesiredMode.PAUSED, "r1"))
    assert (told(driver).request_id, told(driver).phase) == ("l2", LayoutPhase.GIVEN_UP)


def test_a_pause_ends_when_somebody_falls_silent_in_it_and_steps_go_on() -> None:
    driver, _ = held()
    nodes_alone_speak(driver)
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert "node 0, 1, 2 fell silent when all had copied. Nothing was changed" in told(driver).text
    assert goes_on(driver)


def test_nobody_fell_silent_while_the_coordinator_itself_slept() -> None:
    driver, _ = held()
    for node in range(2):
        driver.say(node)
    driver.tick(WIDE.limits.heartbeat_timeout_ms)
    assert told(driver).phase is LayoutPhase.SWITCHING
    ready(driver, copied_step=1)
    nodes_alone_speak(driver)
    assert "fell silent when all had copied" in told(driver).text


def test_a_pause_ends_when_the_last_step_is_not_saved_in_time() -> None:
    driver, _ = held()
    for _ in range(WIDE.limits.open_timeout_ms // 2_000):
        assert told(driver).phase is LayoutPhase.SWITCHING
        driver.log.now_ms += 2_000
        for node in range(2):
            driver.say(node)
        ready(driver, copied_step=1)
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert "was not saved within 20000 ms when all had copied" in told(driver).text


def test_a_pause_ends_when_the_last_step_can_not_be_saved_and_steps_go_on() -> None:
    driver, commands = held()
    for node in range(2):
        driver.say(node)
    part(driver, 0, commands[0], error="the disk is full")
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert "the disk is full. Nothing was changed" in told(driver).text
    assert goes_on(driver)


def test_another_definition_ends_it() -> None:
    driver = running(saved=True)
    ask(driver)
    driver.see(replace(WIDE, fingerprint="f2", compatible_with=(WIDE.fingerprint,)))
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert "another definition was submitted. Nothing was changed" in told(driver).text


def test_it_is_given_up_at_the_end_of_its_time() -> None:
    driver = running(saved=True)
    ask(driver)
    for _ in range(_TIMEOUT_MS // 2_000):
        assert told(driver).phase is LayoutPhase.WAITING
        driver.log.now_ms += 2_000
        driver.say(0)
    assert (told(driver).phase, "was not ready within 60000 ms" in told(driver).text) == (
        LayoutPhase.GIVEN_UP,
        True,
    )


def test_a_node_is_replaced_with_all_that_it_has_and_nothing_moves() -> None:
    driver = running(saved=True)
    driver.see(LayoutRequest("p", "l1", 1, 2, _TIMEOUT_MS, (1,)))
    assert "start kcontrol node --node 1 --instead" not in told(driver).text
    driver.see(LayoutReady("p", 0, "h", 7, "u0", "l1", 1, 0, 0, "", 1))
    assert "waiting for node 1 to make ready: start kcontrol node --node 1 --instead" in told(driver).text
    driver.see(LayoutReady("p", 1, "other", 8, "u1", "l1", 1, 9, 9, "", 1))
    made = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms))).assignment
    assert made is not None
    assert (made.nodes, made.replaced, made.owners, made.moved_shards) == (2, (1,), (0, 1, 0, 1), 0)


def test_only_nodes_that_there_are_can_be_replaced() -> None:
    driver = running(saved=True)
    driver.see(LayoutRequest("p", "l1", 1, 2, _TIMEOUT_MS, (2,)))
    assert told(driver).phase is LayoutPhase.REFUSED
    assert "has the nodes 0 to 1" in told(driver).text


def test_any_node_is_left_out_and_a_process_that_waits_takes_its_number_with_what_the_last_node_has() -> None:
    driver = running(saved=True)
    driver.see(LayoutRequest("p", "l1", 1, 1, _TIMEOUT_MS, (0,), without=0))
    assert (
        "start kcontrol node --node 0 --instead on the host of node 1, whose place it takes"
        in told(driver).text
    )
    driver.see(LayoutReady("p", 0, "h", 8, "u1", "l1", 1, 9, 9, "", 1))
    made = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms))).assignment
    assert made is not None
    assert (made.nodes, made.replaced, made.owners, made.moved_shards) == (1, (0,), (0, 0, 0, 0), 2)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (LayoutRequest("p", "l1", 1, 1, _TIMEOUT_MS, (), without=0), "one of them is left out at a time"),
        (LayoutRequest("p", "l1", 1, 1, _TIMEOUT_MS, (1,), without=1), "one of them is left out at a time"),
        (LayoutRequest("p", "l1", 1, 1, _TIMEOUT_MS, (2,), without=2), "has no node 2"),
        (LayoutRequest("p", "l1", 1, 2, _TIMEOUT_MS, (0,), without=0), "one of them is left out at a time"),
    ],
)
def test_who_is_left_out_has_to_be_replaced_and_is_not_the_last(request_: LayoutRequest, why: str) -> None:
    driver = running(saved=True)
    driver.see(request_)
    assert told(driver).phase is LayoutPhase.REFUSED
    assert why in told(driver).text


def test_what_was_asked_for_can_be_withdrawn() -> None:
    driver = running(saved=True)
    ask(driver)
    ask(driver, nodes=0, request_id="l2")
    assert told(driver).request_id == "l2"
    assert "withdrawn" in told(driver).text
    assert driver.state.changing.now is None


def test_what_was_asked_for_can_be_withdrawn_while_nothing_can_be_changed() -> None:
    """A pause has given it up, and whoever withdraws it hears that it is withdrawn, not that it can't be made now."""
    driver = running(saved=True)
    ask(driver)
    driver.see(Desired("p", DesiredMode.PAUSED, "r1"))
    assert "paused" in told(driver).text
    ask(driver, nodes=0, request_id="l2")
    assert (told(driver).request_id, told(driver).text) == ("l2", "what was asked for before is withdrawn")


def test_who_joined_before_the_newest_definition_is_not_in_place() -> None:
    driver = running(saved=True)
    driver.see_step(replace(given(), live=True))
    driver.see(assigned(replace(WIDE, compatible_with=("f1",)), replace(given(), live=True)))
    assert "node 0 has not joined by the newest definition" in driver.status.reason
    driver.join()
    assert driver.say(phase=NodePhase.CLOSED, openable=(1,), checkpoint=1) != []
