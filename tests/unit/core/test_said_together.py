"""What a node keeps to itself for a moment, so that it says less where steps follow each other closely: and what it never
keeps."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.core.events import AttemptWritten, EngineFailed, InputArrived, StepFinished
from kcontrol.core.model import (
    CommandKind,
    ControlRecord,
    FailureKind,
    NodePhase,
    NodeState,
    Received,
    ReceivedPartition,
    StepWork,
    Written,
)
from kcontrol.core.node.announce import BEGUN_WAITS_MS, FINISHED_WAITS_MS, INPUT_WAITS_MS
from tests.unit.core.drive import NodeDriver, published
from tests.unit.core.made import boundary
from tests.unit.core.test_node import RESULT, opened, work_of


def ready() -> NodeDriver:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    return driver


def begin(driver: NodeDriver, step: int) -> tuple[StepWork, list[object]]:
    work = work_of(driver, step, step)
    return work, driver.command(CommandKind.STEP, step, work)


def arrived(driver: NodeDriver, end: int) -> list[object]:
    seen = (ReceivedPartition(0, "T1", 0, end), ReceivedPartition(1, "T1", 0, 3))
    return driver.feed(InputArrived("in", seen, 100, driver.log.now_ms))


def said(effects: Sequence[object]) -> list[type[ControlRecord]]:
    return [type(record) for record in published(object, list(effects))]


def test_where_a_step_follows_at_once_a_node_speaks_once_a_step() -> None:
    driver = ready()
    arrived(driver, 6)
    for step in (1, 2, 3):
        work, effects = begin(driver, step)
        assert said(effects) == []
        driver.tick(5)
        assert said(arrived(driver, 6 + step)) == []
        driver.tick(5)
        written = driver.feed(AttemptWritten(step, RESULT, driver.log.now_ms))
        assert sorted(each.__name__ for each in said(written)) == ["NodeState", "Received", "Written"]
        assert published(NodeState, written)[0].attempt == work.token
        assert published(Received, written)[0].partitions[0].to == 6 + step
        assert said(driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step), work.token))) == []
        assert said(driver.feed(StepFinished(step, (step,), driver.log.now_ms))) == []
        driver.tick(FINISHED_WAITS_MS - 1)


def finished(driver: NodeDriver) -> None:
    work, _ = begin(driver, 1)
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    driver.see_step(boundary(1, token=work.token))
    assert said(driver.feed(StepFinished(1, (1,), driver.log.now_ms))) == []


def test_that_a_step_is_finished_is_said_if_no_other_follows() -> None:
    driver = ready()
    finished(driver)
    assert said(driver.tick(FINISHED_WAITS_MS - 1)) == []
    state = published(NodeState, driver.tick(1))[0]
    assert (state.phase, state.step, state.attempt) == (NodePhase.OPEN, 1, None)


def test_that_a_step_is_begun_is_said_if_it_takes_long() -> None:
    driver = ready()
    work, effects = begin(driver, 1)
    assert said(effects) == []
    assert said(driver.tick(BEGUN_WAITS_MS - 1)) == []
    state = published(NodeState, driver.tick(1))[0]
    assert (state.phase, state.attempt) == (NodePhase.RUNNING, work.token)


def test_that_a_command_is_carried_out_waits_for_nothing() -> None:
    driver = ready()
    finished(driver)
    state = published(NodeState, driver.command(CommandKind.PAUSE, 1))[0]
    assert (state.phase, state.step) == (NodePhase.OPEN, 1)


def test_that_an_attempt_failed_waits_for_nothing() -> None:
    driver = ready()
    begin(driver, 1)
    effects = driver.feed(EngineFailed(FailureKind.LOST, "a worker was killed", driver.log.now_ms))
    assert published(Written, effects)[0].failure is FailureKind.LOST
    assert published(NodeState, effects)[0].phase is NodePhase.CLOSED


def test_input_is_said_now_and_then_while_a_step_takes_long() -> None:
    driver = ready()
    arrived(driver, 6)
    begin(driver, 1)
    assert said(arrived(driver, 7)) == []
    assert Received not in said(driver.tick(INPUT_WAITS_MS - 1))
    assert published(Received, driver.tick(1))[0].partitions[0].to == 7
    assert said(arrived(driver, 8)) == []
    assert published(Received, driver.tick(INPUT_WAITS_MS))[0].partitions[0].to == 8


def test_input_that_comes_when_the_node_has_written_is_said_at_once() -> None:
    driver = ready()
    begin(driver, 1)
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    assert published(Received, arrived(driver, 9))[0].partitions[0].to == 9
