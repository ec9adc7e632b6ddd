"""What a node does when it is told to, also while its engine opens or closes, and the words
in which it says what it does."""

from __future__ import annotations

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    CloseEngine,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    Exit,
    InputArrived,
    OpenEngine,
    StepFinished,
)
from kcontrol.core.model import (
    CommandKind,
    FailureKind,
    NodePhase,
    Received,
    ReceivedPartition,
    Replaying,
    Written,
)
from kcontrol.core.node.table import NodeStage
from tests.unit.core.drive import NodeDriver, only, published
from tests.unit.core.made import boundary
from tests.unit.core.test_node import RESULT, opened, states, work_of, writing, written


def opening() -> NodeDriver:
    """Told to create, with an engine that has not answered yet."""
    driver = NodeDriver()
    driver.joined(1)
    driver.see_step(boundary(1))
    driver.command(CommandKind.CREATE, 0)
    return driver


def test_a_command_to_open_interrupts_an_opening_and_its_late_answer_means_nothing() -> None:
    driver = opening()
    assert OpenEngine(1, False) in driver.command(CommandKind.OPEN, 1)
    driver.feed(EngineOpened(0, driver.log.now_ms))
    assert (driver.state.at, driver.state.step) == (NodeStage.OPENING, 1)
    said = states(driver.feed(EngineOpened(1, driver.log.now_ms)))[0]
    assert (driver.state.at, said.command_serial) == (NodeStage.IDLE, 2)


def test_an_opening_that_was_interrupted_may_fail_late() -> None:
    driver = opening()
    driver.command(CommandKind.OPEN, 1)
    driver.feed(EngineFailed(FailureKind.LOST, "cancelled", driver.log.now_ms))
    assert driver.state.at is NodeStage.OPENING
    driver.feed(EngineOpened(1, driver.log.now_ms))
    assert driver.state.at is NodeStage.IDLE


def test_a_stop_interrupts_an_opening() -> None:
    driver = opening()
    assert CloseEngine() in driver.command(CommandKind.STOP, 0)
    driver.feed(EngineFailed(FailureKind.LOST, "cancelled", driver.log.now_ms))
    said = states(driver.feed(EngineClosed(driver.log.now_ms)))[0]
    assert (said.phase, said.command_serial, said.error) == (NodePhase.CLOSED, 2, "")


def test_a_node_that_is_told_to_end_twice_ends_whatever_its_engine_does() -> None:
    """Spark's JVM may have been stopped, and neither open nor close."""
    driver = opening()
    assert CloseEngine() in driver.command(CommandKind.SHUTDOWN, 1)
    assert only(Exit, driver.command(CommandKind.SHUTDOWN, 1)) == Exit(
        "shut down by command", False, shut_down=True
    )


def test_a_command_to_open_interrupts_an_attempt_and_its_late_answer_means_nothing() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    writing(driver)
    assert driver.command(CommandKind.CREATE, 0)[:2] == [CancelAttempt(), OpenEngine(0, True)]
    assert not published(Written, driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms)))
    driver.feed(EngineOpened(0, driver.log.now_ms))
    assert driver.state.at is NodeStage.IDLE
    again = work_of(driver, 1, attempt=2)
    driver.command(CommandKind.STEP, 1, again)
    assert (
        published(Written, driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms)))[0].token == again.token
    )


def test_stop_closes_and_shutdown_ends() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    assert driver.command(CommandKind.STOP, 0) == [CloseEngine()]
    state = states(driver.feed(EngineClosed(driver.log.now_ms)))[0]
    assert (state.phase, state.command_serial) == (NodePhase.CLOSED, 2)
    effects = driver.command(CommandKind.SHUTDOWN, 0)
    assert states(effects)[0].command_serial == 3
    assert only(Exit, effects) == Exit("shut down by command", False, shut_down=True)


def test_shutdown_of_an_open_node_closes_first() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    assert driver.command(CommandKind.SHUTDOWN, 0) == [CloseEngine()]
    only(Exit, driver.feed(EngineClosed(driver.log.now_ms)))


def test_pause_is_acknowledged_when_the_step_is_over() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    work = written(driver)
    assert states(driver.command(CommandKind.PAUSE, 1))[0].command_serial == 3
    driver.see_step(boundary(1, token=work.token))
    assert driver.command(CommandKind.PAUSE, 1) == []
    assert states(driver.feed(StepFinished(1, (1,), driver.log.now_ms)))[0].command_serial == 4


def behind(*steps: int) -> NodeDriver:
    """Open at step 0, with a log that is ahead."""
    driver = NodeDriver()
    driver.joined()
    for step in steps:
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    driver.command(CommandKind.CREATE, 0)
    driver.feed(EngineOpened(0, driver.log.now_ms))
    return driver


def replay(driver: NodeDriver, step: int) -> list[object]:
    """The engine runs a step again and agrees."""
    driver.feed(AttemptWritten(step, RESULT, driver.log.now_ms))
    return driver.feed(StepFinished(step, (step,), driver.log.now_ms))


def test_a_node_that_replays_is_running_and_one_that_rests_is_open() -> None:
    driver = behind(1, 2)
    assert states(driver.tick(1_000))[-1].phase is NodePhase.RUNNING
    assert (states(replay(driver, 1))[-1].phase, driver.state.step) == (NodePhase.RUNNING, 1)
    assert (states(replay(driver, 2))[-1].phase, driver.state.step) == (NodePhase.OPEN, 2)
    assert states(driver.tick(3_600_000))[-1].phase is NodePhase.OPEN, "however long it rests"


def test_a_node_that_is_behind_goes_on_until_the_step_to_stop_at() -> None:
    driver = behind(1, 2, 3)
    assert CloseEngine() not in driver.command(CommandKind.STOP, 2)
    assert CloseEngine() not in replay(driver, 1)
    assert CloseEngine() in replay(driver, 2)
    said = states(driver.feed(EngineClosed(driver.log.now_ms)))[-1]
    assert (said.phase, said.step, said.command_serial) == (NodePhase.CLOSED, 2, 2)


def test_a_node_never_says_both_that_it_received_a_step_and_that_it_replays_it() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    seen = (ReceivedPartition(0, "T1", 0, 6),)
    assert [
        one.step for one in published(Received, driver.feed(InputArrived("in", seen, 0, driver.log.now_ms)))
    ] == [1]
    driver.command(CommandKind.STEP, 1, work_of(driver, 1))
    effects = driver.see_step(boundary(1))
    effects += driver.feed(EngineFailed(FailureKind.LOST, "cancelled", driver.log.now_ms))
    effects += driver.feed(EngineOpened(0, driver.log.now_ms))
    assert driver.state.at is NodeStage.REPLAYING
    assert published(Replaying, effects) == []
    assert states(effects)[-1].phase is NodePhase.RUNNING
    driver.see_step(boundary(2, (6, 1), (7, 2)))
    assert [one.step for one in published(Replaying, replay(driver, 1))] == [2]
