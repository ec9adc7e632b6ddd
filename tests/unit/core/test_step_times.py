"""A step's way in times: what each process says of it, in which record it ends up, and how the line is put
together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.events import (
    AttemptWritten,
    CommitStep,
    EngineFailed,
    Publish,
    StepCommitted,
    StepFinished,
)
from kcontrol.core.model import (
    CommandKind,
    EndTimes,
    FailureKind,
    InputRange,
    Layout,
    NodeState,
    Reason,
    StepEnd,
    StepResult,
    StepWork,
    Token,
    WorkTimes,
    Written,
)
from kcontrol.core.node.announce import FINISHED_WAITS_MS
from kcontrol.core.step.timing import step_marks, step_phases
from tests.unit.core.drive import START_MS, CoordinatorDriver, NodeDriver, only, published
from tests.unit.core.made import boundary
from tests.unit.core.test_node import opened

RESULT = StepResult(boundary(1).inputs, (), (), False, plan_ms=11, run_ms=70)


def begun(driver: NodeDriver, step: int) -> StepWork:
    division = (InputRange("in", "input", "T1", 0, 5, 6), InputRange("in", "input", "T1", 1, 0, 1))
    token = Token(driver.epoch, 1, 7, step, (driver.incarnation,))
    work = StepWork(step, token, "kcontrol.p", 5_000, Reason.RECORDS, division, Layout((), 1, ()), ((0, 1),))
    driver.command(CommandKind.STEP, step, work)
    return work


def test_a_node_says_when_it_did_its_work_and_when_the_step_ended() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    work = begun(driver, 1)
    driver.tick(80)
    report = published(Written, driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms)))[0]
    assert report.times == WorkTimes(START_MS, START_MS + 11, START_MS + 70, START_MS + 80)
    driver.tick(5)
    driver.see_step(boundary(1, token=work.token))
    driver.tick(20)
    driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    state = published(NodeState, driver.tick(FINISHED_WAITS_MS))[0]
    assert state.ended == EndTimes(START_MS + 85, START_MS + 105)
    assert published(NodeState, driver.tick(1_000))[0].ended == state.ended


@pytest.mark.parametrize(("recorded_ms", "after_ms"), [(7, 17), (-3, 7), (-13, 0)])
def test_when_spark_had_recorded_a_step_is_said_before_the_report_of_the_next_one(
    recorded_ms: int, after_ms: int
) -> None:
    """After the step's boundary was read, which is what it follows from, whatever a call took to reach the engine."""
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    first = begun(driver, 1)
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    driver.see_step(boundary(1, token=first.token))
    driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    driver.tick(10)
    begun(driver, 2)
    driver.tick(60)
    effects = driver.feed(AttemptWritten(2, replace(RESULT, recorded_ms=recorded_ms), driver.log.now_ms))
    records = [record for effect in effects if isinstance(effect, Publish) for record in effect.records]
    assert [type(record) for record in records] == [NodeState, Written]
    assert published(NodeState, effects)[0].ended == EndTimes(START_MS, START_MS + after_ms)


def test_a_failed_attempt_has_no_times_and_a_replayed_step_no_end() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    begun(driver, 1)
    failed = EngineFailed(FailureKind.QUERY, "no", driver.log.now_ms)
    assert published(Written, driver.feed(failed))[0].times is None
    driver = NodeDriver()
    driver.see_step(boundary(1))
    driver.joined()
    opened(driver)
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    state = published(NodeState, driver.feed(StepFinished(1, (1,), driver.log.now_ms)))[0]
    assert (state.step, state.ended) == (1, None)


def test_a_node_that_is_opened_at_another_step_forgets_when_its_last_one_ended() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    work = begun(driver, 1)
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    driver.see_step(boundary(1, token=work.token))
    driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    ended = published(NodeState, driver.tick(FINISHED_WAITS_MS))[0].ended
    assert ended is not None
    assert published(NodeState, opened(driver, 1))[-1].ended == ended
    assert published(NodeState, opened(driver, 0))[-1].ended is None


def test_the_boundary_has_the_work_and_how_the_step_before_ended() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    first = driver.attempt(6, 1)
    times = WorkTimes(1, 2, 3, 4)
    made = only(CommitStep, driver.write(first, times=times)).boundary
    assert (made.received_ms, made.work, made.before) == (START_MS, (times,), None)
    driver.see_step(made)
    driver.log.now_ms += 9
    driver.feed(StepCommitted(1, driver.log.now_ms))
    driver.ready()
    driver.say()
    second = driver.attempt(7, 2)
    ended = EndTimes(5, 6)
    driver.say(attempt=second.token, ended=ended)
    made = only(CommitStep, driver.write(second)).boundary
    assert made.before == StepEnd(START_MS + 9, (ended,))
    assert made.work == (WorkTimes(0, 0, 0, 0),)


def test_a_coordinator_that_did_not_commit_the_step_before_knows_only_what_nodes_say() -> None:
    driver = CoordinatorDriver()
    driver.see_step(boundary(1))
    driver.take_over()
    driver.join()
    driver.say()
    work = driver.attempt(7, 2)
    driver.say(attempt=work.token, ended=EndTimes(5, 6))
    made = only(CommitStep, driver.write(work)).boundary
    assert made.before == StepEnd(0, (EndTimes(5, 6),))


STEP = replace(
    boundary(1, nodes=2),
    received_ms=100,
    now_ms=103,
    opened_ms=107,
    work=(WorkTimes(110, 121, 180, 181), WorkTimes(109, 125, 170, 171)),
    committed_ms=183,
)
NEXT = replace(boundary(2), before=StepEnd(188, (EndTimes(190, 205), EndTimes(191, 200))))


def test_each_mark_is_that_of_the_last_node() -> None:
    marks = step_marks(STEP, NEXT)
    assert list(marks.items()) == [
        *(
            ("received", 100),
            ("decided", 103),
            ("opened", 107),
            ("begun", 110),
            ("planned", 125),
            ("ran", 180),
        ),
        *(("written", 181), ("asked", 183), ("answered", 188), ("seen", 191), ("recorded", 205)),
    ]
    assert list(step_phases(marks).values()) == [3, 4, 3, 15, 55, 1, 2, 5, 3, 14]


def test_what_is_not_known_is_left_out() -> None:
    assert list(step_marks(STEP, None)) == [
        "received",
        "decided",
        "opened",
        "begun",
        "planned",
        "ran",
        "written",
        "asked",
    ]
    assert step_marks(STEP, replace(NEXT, step=3)) == step_marks(STEP, None)
    old = replace(STEP, received_ms=0, work=())
    assert step_phases(step_marks(old, replace(NEXT, before=None))) == {"opened": 4, "asked": 76}
    half = replace(NEXT, before=StepEnd(0, (EndTimes(190, 205), EndTimes(0, 0))))
    assert step_marks(STEP, half) == step_marks(STEP, None)
