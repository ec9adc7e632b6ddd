"""The coordinator, event by event: what a tenure does, in which order, and what it never does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import RESTING, TABLE, Cause, State
from kcontrol.core.events import (
    AddPartitions,
    Assigned,
    CommitStep,
    EndsReached,
    InitProducer,
    PartitionsAdded,
    ProducerReady,
    Publish,
    ReadToEnds,
    Resign,
    StepCommitted,
    Tick,
    TransactionFailed,
)
from kcontrol.core.model import (
    EMPTY_DIGEST,
    Claim,
    Command,
    CommandKind,
    FailureKind,
    NodePhase,
    OutputSlice,
    PipelinePhase,
    Reason,
    Resume,
    Status,
    Token,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import SPEC, boundary


def test_a_tenure_claims_fences_and_reads_before_it_says_anything() -> None:
    driver = CoordinatorDriver()
    now = driver.log.now_ms
    assert published(Claim, driver.feed(Assigned("c", "host", 1, now, now))) == [Claim("p", "c", "host", 1)]
    assert driver.see(Claim("p", "c", "host", 1)) == [InitProducer(60_000)]
    assert driver.state.tenure.epoch == driver.log.end - 1
    assert driver.feed(ProducerReady(7, 1, now)) == [ReadToEnds(settled=True)]
    status = published(Status, driver.feed(EndsReached(0, now)))[0]
    assert (status.phase, status.reason) == (PipelinePhase.STARTING, "waiting: node 0 has not joined")


def test_a_claim_older_than_the_own_one_does_not_end_the_tenure() -> None:
    driver = CoordinatorDriver()
    driver.feed(Assigned("c", "host", 1, driver.log.now_ms, driver.log.wall_ms))
    assert driver.see(Claim("p", "before", "host", 1)) == []
    assert driver.see(Claim("p", "c", "host", 1)) == [InitProducer(60_000)]
    assert isinstance(driver.see(Claim("p", "after", "host", 1))[0], Resign)
    assert driver.state.at is State.RESIGNED


def test_predecessors_commands_and_incarnations_are_forgotten_after_the_claim() -> None:
    driver = CoordinatorDriver()
    driver.see(Claim("p", "old", "host", 1))
    driver.join()
    old = driver.incarnations[0]
    driver.see(Command("p", 2, 1, 0, old, CommandKind.PAUSE, 0, None))
    driver.say()
    driver.join()
    forgotten = [
        effect.forget for effect in driver.take_over() if isinstance(effect, Publish) and effect.forget
    ]
    assert forgotten == [("p/claim/old", f"p/node/0/join/u{old}", "p/command/2/0", f"p/node/0/{old}/state")]


def test_a_whole_step() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    added = only(AddPartitions, driver.receive(8, 2))
    assert added == AddPartitions(7, 1, (("output", 0), ("output", 1), ("kcontrol.p.steps", 0)))
    driver.log.now_ms += 3
    command = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0]
    work = command.work
    assert work is not None
    assert (command.kind, command.step, command.incarnation) == (CommandKind.STEP, 1, driver.incarnations[0])
    assert [(part.partition, part.from_, part.to) for part in work.division] == [(0, 5, 8), (1, 0, 2)]
    assert (work.reason, work.writers, work.transactional_id) == (Reason.RECORDS, ((0, 1),), "kcontrol.p")
    assert work.token == Token(driver.state.tenure.epoch, 1, 7, 1, (driver.incarnations[0],))
    driver.say(attempt=work.token)
    commit = only(CommitStep, driver.write(work, watermark_moved=True))
    assert (commit.producer_id, commit.producer_epoch) == (7, 1)
    assert commit.boundary.token == work.token
    assert commit.boundary.opened_ms == driver.log.now_ms
    assert commit.boundary.watermark_moved
    assert [piece.digest for piece in commit.boundary.inputs] == ["1" * 32, "1" * 32]
    assert driver.feed(StepCommitted(1, driver.log.now_ms)) == [InitProducer(60_000)]


def test_partitions_that_were_not_read_are_in_the_boundary_all_the_same() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 0)
    read = tuple(piece for piece in boundary(1, (5, 0), (8, 0)).inputs if piece.records)
    inputs = only(CommitStep, driver.write(work, inputs=read)).boundary.inputs
    assert [(piece.partition, piece.from_, piece.to, piece.digest) for piece in inputs[1:]] == [
        (1, 0, 0, EMPTY_DIGEST)
    ]


def test_a_moved_watermark_makes_one_empty_step() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 0)
    commit = only(CommitStep, driver.write(work, watermark_moved=True))
    driver.see_step(commit.boundary)
    driver.feed(StepCommitted(1, driver.log.now_ms))
    driver.ready()
    driver.say()
    assert driver.state.at is State.ADDING
    command = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0]
    assert command.work is not None
    assert command.work.reason is Reason.WATERMARK
    assert all(part.from_ == part.to for part in command.work.division)
    driver.say(attempt=command.work.token)
    driver.see_step(only(CommitStep, driver.write(command.work, outputs=())).boundary)
    driver.feed(StepCommitted(2, driver.log.now_ms))
    driver.ready()
    driver.say()
    assert driver.state.at is State.READY


def test_time_does_not_go_back_with_the_clock() -> None:
    driver = CoordinatorDriver()
    driver.see_step(replace(boundary(1), now_ms=driver.log.now_ms + 5_000))
    driver.in_place()
    assert driver.attempt(9, 9).now_ms == driver.log.now_ms + 5_001


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("step 1, query 'q': boom", "query 'q': boom"),
        ("step 1: input 'i': gone", "input 'i': gone"),
        ("step 10: gone", "step 10: gone"),
    ],
)
def test_the_reason_names_its_step_once(error: str, told: str) -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.write(driver.attempt(8, 2), failure=FailureKind.QUERY, error=error)
    assert driver.state.trouble.failure is not None
    assert driver.state.trouble.failure.text == f"step 1, attempt 1: node 0: {told}"


def test_a_failed_attempt_is_tried_again_with_the_same_division_and_time() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    first = driver.attempt(8, 2)
    assert driver.write(first, failure=FailureKind.QUERY, error="boom") == [InitProducer(60_000)]
    driver.say(phase=NodePhase.CLOSED, error="boom")
    driver.receive(20, 20)
    assert published(Command, driver.ready())[0].kind is CommandKind.CREATE
    assert driver.status.reason == "step 1, attempt 1: node 0: boom"
    driver.say()
    assert driver.state.at is State.READY
    driver.tick(100)
    again = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0].work
    assert again is not None
    assert (again.division, again.now_ms, again.layout, again.reason) == (
        first.division,
        first.now_ms,
        first.layout,
        first.reason,
    )
    assert (again.token.attempt, again.token.producer_epoch) == (2, 2)


def test_reports_of_another_token_do_not_count() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    assert driver.write(work, token=replace(work.token, producer_epoch=9)) == []
    assert driver.write(work, step=2) == []
    assert driver.state.at is State.ATTEMPTING


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"inputs": ()}, "read nothing of input in partition 0, not [5, 8)"),
        ({"inputs": boundary(1, (5, 0), (8, 3)).inputs}, "read [0, 3) of input in partition 1, not [0, 2)"),
        ({"inputs": boundary(1, (5, 0), (8, 2)).inputs * 2}, "reports a partition of an input twice"),
    ],
)
def test_a_report_that_does_not_fit_the_division_is_not_committed(
    changes: dict[str, object], text: str
) -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    assert driver.write(work, **changes) == [InitProducer(60_000)]
    assert driver.state.trouble.failure is not None
    assert text in driver.state.trouble.failure.text


def test_output_that_the_node_may_not_write_is_not_committed() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    assert driver.write(work, outputs=(OutputSlice("out", "output", 2, 0, 1, 1, "0" * 32),)) == [
        InitProducer(60_000)
    ]


@pytest.mark.parametrize("at", ["fencing", "reading", "adding", "attempting", "committing"])
def test_fenced_reads_before_it_claims_again_under_another_name(at: str) -> None:
    driver = CoordinatorDriver()
    now = driver.log.now_ms
    driver.in_place()
    failed = TransactionFailed(FailureKind.FENCED, "90", now)
    if at == "adding":
        driver.receive(8, 2)
    elif at != "fencing" and at != "reading":
        work = driver.attempt(8, 2)
    if at == "attempting":
        assert driver.write(work, failure=FailureKind.FENCED, error="47") == [ReadToEnds(settled=False)]
    else:
        if at in ("fencing", "reading"):
            work = driver.attempt(8, 2)
            driver.write(work, failure=FailureKind.BROKER, error="gone")
        if at == "reading":
            driver.feed(ProducerReady(7, 2, now))
        if at == "committing":
            driver.write(work)
        assert driver.state.at.value == at
        effects = driver.feed(failed)
        if driver.state.at is State.BACKING_OFF_FENCED:
            effects = driver.tick(1_000)
        assert effects == [ReadToEnds(settled=False)]
    assert driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms)) == [
        Publish((Claim("p", "c.2", "host", 1),))
    ]
    assert driver.see(Claim("p", "c.2", "host", 1)) == [InitProducer(60_000)]


def test_fenced_and_replaced_resigns() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.receive(8, 2)
    driver.feed(TransactionFailed(FailureKind.FENCED, "90", driver.log.now_ms))
    only(Resign, driver.see(Claim("p", "other", "host", 1)))
    assert driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms)) == []
    assert driver.tick(60_000) == []


def test_fenced_again_and_again_goes_slowly() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.receive(8, 2)
    for _ in range(2):
        driver.feed(TransactionFailed(FailureKind.FENCED, "90", driver.log.now_ms))
        if driver.state.at is State.CHECKING_CLAIM:
            claim = published(Claim, driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms)))[0]
            driver.see(claim)
    assert driver.state.at is State.BACKING_OFF_FENCED
    assert driver.tick(10) == []
    assert driver.tick(1_000) == [ReadToEnds(settled=False)]
    assert driver.feed(TransactionFailed(FailureKind.BROKER, "down", driver.log.now_ms)) == []
    assert driver.tick(1_000) == [ReadToEnds(settled=False)]


def test_an_unknown_commit_is_found_in_the_log_and_never_asked_for_again() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    commit = only(CommitStep, driver.write(work))
    assert driver.feed(TransactionFailed(FailureKind.BROKER, "lost", driver.log.now_ms)) == []
    assert driver.tick(1_000) == [InitProducer(60_000)]
    driver.feed(ProducerReady(7, 2, driver.log.now_ms))
    driver.see_step(commit.boundary)
    effects = driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms))
    assert not [effect for effect in effects if isinstance(effect, CommitStep)]
    assert driver.state.current.plan is None
    assert driver.say() == []
    assert driver.state.at is State.READY


def test_a_query_that_fails_too_often_halts_and_resumes_on_request() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.receive(8, 2)
    for attempt in range(1, 4):
        work = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0].work
        assert work is not None
        driver.say(attempt=work.token)
        driver.write(work, failure=FailureKind.QUERY, error="boom")
        driver.say(phase=NodePhase.CLOSED, error="boom")
        driver.ready()
        if attempt < 3:
            driver.tick(1_000)
            driver.say()
    assert driver.status.phase is PipelinePhase.HALTED
    assert driver.status.reason.startswith("step 1, attempt 3: node 0: boom")
    assert driver.is_quiet(60_000)
    effects = driver.see(Resume("p", "again"))
    driver.say(phase=NodePhase.CLOSED)
    assert driver.state.trouble.retry.query == 0
    assert driver.status.acknowledged[-1] == "again"
    assert published(Status, effects)[0].phase is not PipelinePhase.HALTED


def test_a_wrong_digest_halts_at_once_and_stays_so_after_a_takeover() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.say(phase=NodePhase.FAILED, error="step 4: input in partition 0 differs")
    assert driver.status.phase is PipelinePhase.HALTED
    assert "step 4: input in partition 0 differs" in driver.status.reason
    successor = CoordinatorDriver()
    successor.see(driver.status)
    successor.in_place()
    assert successor.status.phase is PipelinePhase.HALTED
    assert successor.status.reason == driver.status.reason


def test_a_changed_definition_is_refused_unless_it_is_compatible() -> None:
    driver = CoordinatorDriver(replace(SPEC, fingerprint="f2"))
    driver.see_step(boundary(1))
    driver.take_over()
    assert driver.status.phase is PipelinePhase.HALTED
    assert "f1" in driver.status.reason
    assert "f2" in driver.status.reason
    driver = CoordinatorDriver(replace(SPEC, fingerprint="f2", compatible_with=("f1",)))
    driver.see_step(boundary(1))
    driver.take_over()
    assert driver.status.phase is PipelinePhase.STARTING


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"earliest": 6}, "the next step needs offset 5"), ({"topic_id": "T9"}, "deleted and created again")],
)
def test_input_that_is_gone_halts(changes: dict[str, object], text: str) -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.receive(8, 7, **changes)
    assert driver.status.phase is PipelinePhase.HALTED
    assert text in driver.status.reason
    assert "partition 0" in driver.status.reason


def test_what_a_node_says_of_files_in_place_of_an_id_halts_until_it_says_that_they_are_what_they_were() -> (
    None
):
    item = replace(
        SPEC.inputs[0], topic="file:growing=1,header=0,max_line_bytes=9,pattern=,path=/a", topic_id="lines-1"
    )
    driver = CoordinatorDriver(replace(SPEC, inputs=(item, *SPEC.inputs[1:])))
    driver.in_place()
    driver.receive(8, topic_id="/a has 4 bytes, and 8 were read")
    assert driver.status.phase is PipelinePhase.HALTED
    assert driver.status.reason.startswith(
        "input in: /a has 4 bytes, and 8 were read; put back what its steps have read"
    )
    driver.receive(8, topic_id="lines-1")
    driver.resume()
    assert driver.status.phase is not PipelinePhase.HALTED


def test_a_new_transaction_timeout_needs_a_new_producer() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.see(replace(SPEC, limits=replace(SPEC.limits, transaction_timeout_ms=90_000)))
    assert driver.state.at is State.FENCING
    driver.ready()
    assert driver.state.at is State.READY


def test_the_status_of_a_zombie_is_answered_with_the_right_one() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    right = driver.status
    assert published(Status, driver.see(replace(right, claim_epoch=0, phase=PipelinePhase.HALTED))) == [right]


def test_a_new_step_alone_is_reported_at_most_every_second() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.tick(5_000)
    driver.tick(1_500)
    said = []
    for step in (1, 2):
        work = driver.attempt(5 + step, 0)
        commit = only(CommitStep, driver.write(work))
        driver.see_step(commit.boundary)
        driver.feed(StepCommitted(step, driver.log.now_ms))
        said += published(Status, driver.ready()) + published(Status, driver.say())
    assert [status.step for status in said] == [1]
    assert [status.step for status in published(Status, driver.tick(1_000))] == [2]


def test_decide_leaves_the_given_state_alone() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.receive(8, 2)
    before = CoordinatorState(**vars(driver.state))
    given = driver.state
    coordinator.decide(given, PartitionsAdded(driver.log.now_ms))
    coordinator.decide(given, Tick(driver.log.now_ms + 100_000, driver.log.now_ms))
    assert given == before


def test_an_event_that_can_not_come_is_an_error() -> None:
    driver = CoordinatorDriver()
    driver.take_over()
    with pytest.raises(LookupError):
        driver.feed(StepCommitted(1, driver.log.now_ms))


def test_fencing_leads_to_reading_only_and_reading_comes_before_every_rest() -> None:
    onward = {after for (before, _), after in TABLE.items() if before is State.FENCING}
    assert onward <= {
        State.READING,
        State.BACKING_OFF,
        State.CHECKING_CLAIM,
        State.BACKING_OFF_FENCED,
        State.RESIGNED,
        State.DENIED,
    }
    into_rest = {before for (before, _), after in TABLE.items() if after in RESTING and before not in RESTING}
    assert into_rest == {State.READING, State.COMMITTING}
    from_a_commit = {
        cause for (before, cause), after in TABLE.items() if before is State.COMMITTING and after in RESTING
    }
    assert from_a_commit == {Cause.FOLLOWED}
    into_fencing = {cause for (_, cause), after in TABLE.items() if after is State.FENCING}
    assert not into_fencing & {Cause.FENCED, Cause.FENCED_AGAIN, Cause.CLAIM_HOLDS}
