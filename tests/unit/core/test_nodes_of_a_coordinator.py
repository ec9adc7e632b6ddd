"""How a coordinator brings nodes to the last committed step, waits for them, loses them, pauses and stops
them."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import AddPartitions, CommitStep, InitProducer, PartitionsAdded, StepCommitted
from kcontrol.core.model import (
    Claim,
    Command,
    CommandKind,
    Desired,
    DesiredMode,
    NodePhase,
    PipelinePhase,
    Token,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import LIMITS, SPEC, boundary

TWO = replace(SPEC, nodes=2, inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),))


def committed(driver: CoordinatorDriver, steps: int) -> None:
    for step in range(1, steps + 1):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))


def test_nodes_in_place_are_left_alone_by_a_new_coordinator() -> None:
    driver = CoordinatorDriver()
    committed(driver, 3)
    driver.join()
    driver.say(phase=NodePhase.RUNNING)
    assert published(Command, driver.take_over()) == []
    assert published(Command, driver.say(phase=NodePhase.RUNNING)) == []
    assert driver.state.at is State.READY


def test_a_state_that_echoes_another_claim_does_not_count() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join()
    assert (
        published(Command, driver.say(phase=NodePhase.CLOSED, claim_epoch=driver.state.tenure.epoch - 1))
        == []
    )
    assert driver.status.reason == "waiting: node 0 has not seen this coordinator's claim"


def test_a_closed_node_opens_the_newest_step_that_is_committed_or_nothing() -> None:
    driver = CoordinatorDriver()
    committed(driver, 3)
    driver.take_over()
    driver.join()
    command = published(Command, driver.say(phase=NodePhase.CLOSED, openable=(5, 2, 1)))[0]
    assert (command.kind, command.step) == (CommandKind.OPEN, 2)
    driver.join()
    driver.tick(1_000)
    command = published(Command, driver.say(phase=NodePhase.CLOSED, openable=(5,)))[0]
    assert (command.kind, command.step) == (CommandKind.CREATE, 0)


def test_an_attempt_left_by_a_predecessor_is_taken_back() -> None:
    driver = CoordinatorDriver()
    committed(driver, 3)
    driver.take_over()
    driver.join()
    command = published(Command, driver.say(attempt=Token(0, 1, 7, 1, (0,)), openable=(3, 2)))[0]
    assert (command.kind, command.step) == (CommandKind.OPEN, 3)
    assert driver.say(attempt=Token(0, 1, 7, 1, (0,)), command_serial=0) == []


def test_an_attempt_left_by_a_predecessor_that_was_committed_is_finished() -> None:
    driver = CoordinatorDriver()
    committed(driver, 3)
    driver.take_over()
    driver.join()
    assert published(Command, driver.say(step=2, attempt=Token(0, 1, 7, 1, (0,)))) == []
    assert driver.status.reason == "waiting: node 0 finishes step 3"
    driver.say()
    assert driver.state.at is State.READY


PATIENCE_MS = LIMITS.open_timeout_ms + LIMITS.heartbeat_timeout_ms


def test_a_node_that_does_not_open_in_time_is_told_to_end_and_counted() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join()
    first = published(Command, driver.say(phase=NodePhase.CLOSED))[0]
    pending = {"phase": NodePhase.CLOSED, "command_epoch": -1, "command_serial": -1}
    driver.tick()
    assert speak_for(driver, PATIENCE_MS - 1_000, **pending) == []
    driver.tick(999)
    again = published(Command, driver.tick(1))[0]
    assert (again.kind, again.serial > first.serial) == (CommandKind.SHUTDOWN, True)
    assert driver.state.trouble.retry.lost == 1
    assert "node 0 opens step 0, for more than 28000 ms: it is told to end" in driver.status.reason


def speak_for(driver: CoordinatorDriver, after_ms: int, **changes: object) -> list[Command]:
    """Node 0 says the same again and again, for so long; the commands that come of it."""
    commands: list[Command] = []
    for _ in range(after_ms // 1_000):
        commands += published(Command, driver.tick(1_000))
        commands += published(Command, driver.say(**changes))
    return commands


def test_a_node_that_does_not_end_is_told_again_until_the_pipeline_halts() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join()
    pending = {"phase": NodePhase.CLOSED, "command_epoch": -1, "command_serial": -1}
    commands = speak_for(driver, 6 * PATIENCE_MS, **pending)
    assert [one.kind for one in commands] == [
        CommandKind.CREATE,
        *[CommandKind.SHUTDOWN] * (LIMITS.max_lost - 1),
    ]
    assert driver.status.phase is PipelinePhase.HALTED
    assert driver.status.reason.startswith("node 0 is to end, for more than 28000 ms")


def test_a_node_that_speaks_and_does_not_listen_is_told_to_end() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join()
    commands = speak_for(driver, PATIENCE_MS + 1_000, claim_epoch=driver.state.tenure.epoch - 1)
    assert [one.kind for one in commands] == [CommandKind.SHUTDOWN]
    assert "node 0 has not seen this coordinator's claim, for more than 28000 ms" in driver.status.reason


def test_a_node_that_is_silent_for_long_is_told_to_end_once_and_named_until_its_next_incarnation_joins() -> (
    None
):
    driver = CoordinatorDriver()
    driver.in_place()
    driver.attempt(8, 2)
    commands = []
    for _ in range(200):
        commands += published(Command, driver.tick(1_000))
        if driver.state.at is State.FENCING:
            commands += published(Command, driver.ready())
        assert (driver.log.now_ms - 10_000 < LIMITS.silence_timeout_ms) == (commands == [])
    assert [one.kind for one in commands] == [CommandKind.SHUTDOWN]
    assert driver.status.reason.startswith(
        "waiting: node 0 says nothing (was open at step 0) and was told to end"
    )
    assert driver.status.phase is PipelinePhase.STARTING
    driver.join()
    assert published(Command, driver.say(phase=NodePhase.CLOSED))[0].kind is CommandKind.CREATE


def test_a_node_that_joins_and_says_nothing_is_told_to_end_and_counted() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join()
    commands = []
    limit_ms = PATIENCE_MS + LIMITS.save_timeout_ms
    for _ in range(0, limit_ms, 1_000):
        assert commands == []
        commands += published(Command, driver.tick(1_000))
    assert [one.kind for one in commands] == [CommandKind.SHUTDOWN]
    assert driver.state.trouble.retry.lost == 1
    assert (
        f"node 0 has joined and says nothing yet, for more than {limit_ms} ms: it is told to end"
        in driver.status.reason
    )


def test_a_pause_of_a_node_that_is_soon_over_costs_no_restart() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    for _ in range(LIMITS.silence_timeout_ms // 1_000 - 1):
        assert published(Command, driver.tick(1_000)) == []
    driver.say()
    assert driver.state.at is State.READY


def test_a_node_that_does_not_stop_is_told_to_end_and_one_that_died_meanwhile_is_not_waited_for() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    stop = published(Command, driver.see(Desired("p", DesiredMode.STOPPED, "r9")))[0]
    assert stop.kind is CommandKind.STOP
    commands = speak_for(driver, PATIENCE_MS + 1_000, command_serial=stop.serial - 1)
    assert [one.kind for one in commands] == [CommandKind.SHUTDOWN]
    assert driver.status.reason == "stopping: node 0 closes, for more than 28000 ms: it is told to end"
    for _ in range(10):
        driver.tick(1_000)
    assert driver.status.phase is PipelinePhase.STOPPED


def test_a_replay_is_given_time_for_each_step() -> None:
    driver = CoordinatorDriver()
    committed(driver, 3)
    driver.take_over()
    driver.join()
    driver.say(step=0)
    for step in (0, 1, 2):
        assert published(Command, driver.say(step=step)) == []
        assert speak_for(driver, 24_000, step=step) == []
    driver.say(step=2, openable=(2,))
    assert published(Command, driver.tick(1_000))[0].kind is CommandKind.OPEN
    assert driver.state.trouble.failure is not None
    assert (
        driver.state.trouble.failure.text
        == "node 0 replays step 3, for more than 25000 ms: it is told to open again"
    )


def test_a_coordinator_that_stood_still_does_not_count_that_against_a_node() -> None:
    """What the node has said meanwhile is behind what is read first: it was told to begin anew."""
    driver = CoordinatorDriver()
    committed(driver, 3)
    driver.take_over()
    driver.join()
    assert speak_for(driver, 24_000, step=2) == []
    assert published(Command, driver.tick(35_000)) == []
    assert published(Command, driver.say(step=3, openable=(3,))) == []
    assert (driver.state.trouble.failure, driver.state.at) == (None, State.READY)


def test_a_node_that_is_silent_about_its_step_is_opened_although_the_coordinator_stood_still() -> None:
    driver = CoordinatorDriver()
    committed(driver, 3)
    driver.take_over()
    driver.join()
    assert speak_for(driver, 20_000, step=2) == []
    driver.tick(35_000)
    assert speak_for(driver, 5_000, step=2) == []
    assert [one.kind for one in speak_for(driver, 1_000, step=2)] == [CommandKind.CREATE]


def test_a_node_that_fails_to_open_too_often_halts_the_pipeline() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join()
    for _ in range(LIMITS.max_lost):
        driver.say(phase=NodePhase.CLOSED, error="no disk")
        driver.tick(1_000)
    assert published(Command, driver.say(phase=NodePhase.CLOSED, error="no disk")) == []
    assert driver.status.phase is PipelinePhase.HALTED
    assert "node 0 could not open step 0, or replay from there: no disk" in driver.status.reason


def test_a_node_that_dies_while_it_opens_counts() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    driver.join()
    driver.say(phase=NodePhase.CLOSED)
    driver.join()
    assert driver.state.trouble.retry.lost == 1
    assert driver.state.trouble.failure is not None
    assert "node 0 ended while it opened step 0" in driver.state.trouble.failure.text


def test_silence_is_death_until_the_state_repeats() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    for _ in range(7):
        driver.tick(1_000)
    assert driver.tick(1_000) == [InitProducer(60_000)]
    assert driver.state.trouble.failure is not None
    assert driver.state.trouble.failure.text == "step 1, attempt 1: node 0 said nothing for 8000 ms"
    driver.ready()
    assert driver.state.at is State.ASSEMBLING
    assert published(Command, driver.say(attempt=work.token))[0].kind is CommandKind.CREATE


def test_a_coordinator_that_did_not_run_itself_judges_nobody() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.attempt(8, 2)
    assert driver.is_quiet(20_000)
    for _ in range(7):
        assert driver.is_quiet(1_000)
    assert driver.tick(1_000) == [InitProducer(60_000)]


def test_an_attempt_has_a_deadline_that_names_who_was_late() -> None:
    driver = CoordinatorDriver(TWO)
    driver.take_over()
    for number in (0, 1):
        driver.join(number)
        driver.say(number)
    driver.receive(8)
    commands = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))
    works = [command.work for command in commands if command.work is not None]
    for number in (0, 1):
        driver.say(number, attempt=works[number].token)
    mine = replace(works[0], division=works[0].division[:1])
    driver.write(mine, outputs=())
    for _ in range(29):
        driver.tick(1_000)
        for number in (0, 1):
            assert driver.say(number, attempt=works[number].token) == []
    assert driver.tick(1_000) == [InitProducer(60_000)]
    assert driver.state.trouble.failure is not None
    assert driver.state.trouble.failure.text == "step 1, attempt 1: node 1 has not written within 30000 ms"


def test_two_nodes_write_one_step() -> None:
    driver = CoordinatorDriver(TWO)
    driver.take_over()
    for number in (0, 1):
        driver.join(number)
        driver.say(number)
    assert driver.state.at is State.READY
    driver.receive(8, number=0)
    driver.receive(99, 3, number=1)
    assert driver.state.at is State.ADDING
    commands = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))
    works = [command.work for command in commands if command.work is not None]
    assert [work.writers for work in works] == [((0,),), ((1,),)]
    assert works[0].token == works[1].token
    assert works[0].token.incarnations == (driver.incarnations[0], driver.incarnations[1])
    assert [(part.from_, part.to) for part in works[0].division] == [(5, 8), (0, 0)]
    driver.say(0, attempt=works[0].token)
    driver.say(1, attempt=works[1].token)
    assert driver.write(replace(works[0], division=works[0].division[:1]), number=0, outputs=()) == []
    commit = only(CommitStep, driver.write(replace(works[1], division=works[1].division[1:]), number=1))
    assert [piece.partition for piece in commit.boundary.inputs] == [0, 1]
    assert commit.boundary.nodes == 2


def test_a_node_that_was_lost_while_partitions_were_added_is_asked_nothing() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    only(AddPartitions, driver.receive(8, 2))
    driver.join()
    assert driver.feed(PartitionsAdded(driver.log.now_ms)) == [InitProducer(60_000)]
    assert driver.state.trouble.retry.lost == 0


def test_a_restarted_node_ends_the_attempt() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.attempt(8, 2)
    assert driver.join() == [InitProducer(60_000)]


def test_a_node_whose_state_shows_that_it_lost_the_attempt_ends_it() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.attempt(8, 2)
    assert driver.say(attempt=None) == [InitProducer(60_000)]


# --- what the user wants ------------------------------------------------------------------------------------


def test_pause_finishes_the_step_in_flight_and_running_goes_on() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    assert driver.see(Desired("p", DesiredMode.PAUSED, "r1")) == []
    commit = only(CommitStep, driver.write(work))
    driver.see_step(commit.boundary)
    driver.feed(StepCommitted(1, driver.log.now_ms))
    driver.ready()
    assert published(Command, driver.say())[0].kind is CommandKind.PAUSE
    assert (driver.status.phase, driver.status.acknowledged) == (PipelinePhase.PAUSED, ("r0", "r1"))
    assert driver.receive(20, 20) == []
    driver.see(Desired("p", DesiredMode.RUNNING, "r2"))
    assert driver.state.at is State.ADDING


def test_stop_closes_the_nodes_and_ends_them() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    assert published(Command, driver.see(Desired("p", DesiredMode.STOPPED, "r1")))[0].kind is CommandKind.STOP
    assert driver.status.phase is PipelinePhase.RUNNING
    assert "r1" not in driver.status.acknowledged
    assert published(Command, driver.say(phase=NodePhase.CLOSED))[0].kind is CommandKind.SHUTDOWN
    driver.say(phase=NodePhase.CLOSED)
    assert (driver.status.phase, driver.status.acknowledged[-1]) == (PipelinePhase.STOPPED, "r1")
    driver.join()
    assert published(Command, driver.say(phase=NodePhase.CLOSED))[0].kind is CommandKind.SHUTDOWN
    driver.say(phase=NodePhase.CLOSED)
    driver.see(Desired("p", DesiredMode.RUNNING, "r2"))
    assert driver.status.reason == "waiting: node 0 was shut down and has not joined again"
    driver.join()
    assert published(Command, driver.say(phase=NodePhase.CLOSED))[0].kind is CommandKind.CREATE


def test_a_halted_pipeline_can_be_stopped_and_starts_afresh() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.say(phase=NodePhase.FAILED, error="digest")
    assert driver.state.at is State.HALTED
    driver.see(Desired("p", DesiredMode.STOPPED, "r1"))
    driver.say(phase=NodePhase.CLOSED)
    assert driver.status.phase is PipelinePhase.STOPPED
    driver.see(Desired("p", DesiredMode.RUNNING, "r2"))
    assert driver.status.phase is PipelinePhase.STARTING


def test_a_halted_pipeline_takes_back_what_is_in_flight_and_rests() -> None:
    driver = CoordinatorDriver(TWO)
    driver.take_over()
    for number in (0, 1):
        driver.join(number)
        driver.say(number)
    driver.receive(8)
    token = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0].work
    assert token is not None
    driver.say(1, attempt=token.token)
    driver.say(0, phase=NodePhase.FAILED, error="digest")
    commands = published(Command, driver.ready())
    assert sorted(command.node for command in commands if command.kind is CommandKind.CREATE) == [0, 1]
    driver.say(1)
    assert published(Command, driver.tick(1_000)) == []


def test_a_pipeline_without_a_definition_waits_for_it() -> None:
    driver = CoordinatorDriver(spec=None)
    driver.take_over()
    assert driver.status.reason == "waiting for the pipeline's definition"
    driver.see(SPEC)
    assert driver.status.reason == "waiting: node 0 has not joined"


def test_claims_of_other_pipelines_do_not_matter() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    assert driver.see(Claim("other", "x", "host", 1)) == []
    assert driver.state.at is State.READY
