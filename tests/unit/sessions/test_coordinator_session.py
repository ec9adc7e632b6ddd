"""The shell of the coordinator: each record once and in order whichever way it came,
each effect answered by one event."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kcontrol.core.coordinator.decide import CoordinatorState, decide
from kcontrol.core.events import (
    Assigned,
    CheckpointCommitted,
    CommitCheckpoint,
    CommitStep,
    ControlSeen,
    EndProved,
    EndsReached,
    Following,
    InitProducer,
    ProducerReady,
    ProveEnd,
    Publish,
    ReadToEnds,
    Resign,
    StepCommitted,
    StepSeen,
    TransactionFailed,
)
from kcontrol.core.model import (
    ExchangeSpec,
    FailureKind,
    Logged,
    LoggedStep,
    Tombstone,
)
from kcontrol.errors import (
    CommitUnknownError,
    FencedError,
    KcontrolError,
    RetriableError,
    TopicError,
)
from kcontrol.sessions.coordinator import CoordinatorPorts, CoordinatorSession
from kcontrol.sessions.ports import NextTransaction
from tests.simulation.specs import simulated_spec
from tests.support.patience import HANG_S
from tests.support.played import spec_of
from tests.support.samples import boundary, desired
from tests.unit.core.made import checkpoint
from tests.unit.sessions.scripted import Script, Steps, World, drive, logged, session, until


def test_each_record_is_seen_once_and_in_order_whether_pushed_or_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(monkeypatch, {})
    world = World(deque(logged(offset) for offset in (0, 1, 2)))

    async def act(made: CoordinatorSession) -> None:
        made.push(1, logged(1))
        made.push(2, logged(2))
        await until(lambda: any(isinstance(event, Assigned) for event in script.events))
        made.push(2, logged(2))
        made.push(3, logged(3))
        world.control.extend(logged(offset) for offset in (3, 4, 5, 6))
        made.push(6, logged(6))
        await until(lambda: 6 in script.offsets())
        made.push(5, logged(5))
        made.push(7, None)
        made.push(8, logged(8))
        await until(lambda: 8 in script.offsets())

    drive(world, act)
    assert script.offsets() == [0, 1, 2, 3, 4, 5, 6, 8]
    assert [type(event) for event in script.events[:4]] == [ControlSeen, ControlSeen, ControlSeen, Assigned]


def test_what_lies_before_a_pushed_record_is_read_although_a_broker_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(monkeypatch, {})
    world = World(deque(logged(offset) for offset in (0, 1, 2, 3, 4)), shown=2)

    async def act(made: CoordinatorSession) -> None:
        await until(lambda: any(isinstance(event, Assigned) for event in script.events))
        made.push(4, logged(4))
        await until(lambda: 4 in script.offsets())

    drive(world, act)
    assert script.offsets() == [0, 1, 2, 3, 4]


def test_its_own_claim_is_read_at_once_while_faust_pushes_nothing_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A takeover waits for the claim, and Faust for a second and more until it fetches after an assignment."""
    script = Script(monkeypatch, {Assigned: [Publish((desired("p", "claim"),))]})
    world = World(shown=0, keeps=True)

    async def act(_session: CoordinatorSession) -> None:
        await until(lambda: script.offsets() == [0])

    drive(world, act)
    assert world.through == [0]


def test_once_faust_pushes_what_it_says_itself_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, {ControlSeen: [Publish((desired("p", "word"),))]})
    world = World(shown=0, keeps=True)

    async def act(made: CoordinatorSession) -> None:
        await until(lambda: any(isinstance(event, Assigned) for event in script.events))
        made.push(0, logged(0))
        await until(lambda: len(world.said) == 1)
        made.push(1, logged(1))
        await until(lambda: script.offsets() == [0, 1])

    drive(world, act)
    assert world.through == []


@pytest.mark.parametrize("fenced", [True, False])
def test_both_ends_are_read_before_it_says_so(monkeypatch: pytest.MonkeyPatch, fenced: bool) -> None:
    script = Script(monkeypatch, {Assigned: [ReadToEnds(settled=fenced)]})
    world = World(steps=[LoggedStep(0, boundary("p", 1))], log_end=7)

    async def act(made: CoordinatorSession) -> None:
        await until(lambda: bool(script.events))
        world.control.append(logged(9))
        await until(lambda: any(isinstance(event, EndsReached) for event in script.events))

    drive(world, act)
    kinds = [type(event) for event in script.events]
    assert kinds.index(StepSeen) < kinds.index(EndsReached)
    assert script.events[kinds.index(EndsReached)] == EndsReached(1, 1_000)
    assert (
        world.settled == [7] * fenced
    )  # one who has not fenced may not wait for a transaction that is another's


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (FencedError("x"), FailureKind.FENCED),
        (RetriableError("x"), FailureKind.BROKER),
        (CommitUnknownError("x"), FailureKind.BROKER),
        (TopicError("x"), FailureKind.BROKER),
    ],
)
def test_errors_of_the_transaction_are_events(
    monkeypatch: pytest.MonkeyPatch, fault: KcontrolError, kind: FailureKind
) -> None:
    script = Script(monkeypatch, {Assigned: [InitProducer(1_000)]})

    async def act(made: CoordinatorSession) -> None:
        await until(lambda: any(isinstance(event, TransactionFailed) for event in script.events))

    drive(World(fault=fault), act)
    assert script.events[-1] == TransactionFailed(kind, "x", 1_000)


def test_the_boundary_is_stamped_just_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    given = replace(boundary("p", 4), committed_ms=0)
    script = Script(
        monkeypatch, {Assigned: [InitProducer(1_000)], ProducerReady: [CommitStep(5, 6, given, 9)]}
    )
    world = World()

    async def act(made: CoordinatorSession) -> None:
        await until(lambda: any(isinstance(event, StepCommitted) for event in script.events))

    drive(world, act)
    assert world.committed == [(replace(given, committed_ms=1_000), 9)]


def test_what_a_commit_tells_of_the_next_transaction_comes_with_the_boundary_and_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = boundary("p", 4)
    script = Script(
        monkeypatch, {Assigned: [InitProducer(1_000)], ProducerReady: [CommitStep(5, 6, given, 9)]}
    )
    world = World(following=NextTransaction((5, 7), 10, 12))

    async def act(made: CoordinatorSession) -> None:
        await until(lambda: any(isinstance(event, StepCommitted) for event in script.events))

    drive(world, act)
    stamped = replace(given, committed_ms=1_000)
    assert script.events[-1] == StepCommitted(4, 1_000, Following(5, 7, LoggedStep(10, stamped), 12))
    assert world.passed_over == [11]


def test_a_checkpoint_is_recorded_with_what_it_makes_needless(monkeypatch: pytest.MonkeyPatch) -> None:
    made = checkpoint(4, 1)
    script = Script(
        monkeypatch,
        {Assigned: [InitProducer(1_000)], ProducerReady: [CommitCheckpoint(5, 6, made, 9, ("step/1",))]},
    )
    world = World()

    async def act(_session: CoordinatorSession) -> None:
        await until(lambda: CheckpointCommitted(4, 1_000) in script.events)

    drive(world, act)
    assert world.recorded == [(5, 6, made, 9, "step/1")]


class Purges:
    """What a session wants deleted."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], int, tuple[int, ...]]] = []

    async def purge(
        self, exchanges: Sequence[ExchangeSpec], first_step: int, dropped: Sequence[int] = ()
    ) -> None:
        self.asked.append((tuple(each.name for each in exchanges), first_step, tuple(dropped)))


@pytest.mark.parametrize(
    ("exchanges", "forgotten", "first_step", "asked"),
    [
        ((ExchangeSpec("x", "t", "id", ("k",), "x.send", 0),), ("step/1",), 2, [(("x",), 2, (1,))]),
        ((ExchangeSpec("x", "t", "id", ("k",), "x.send", 0),), (), 2, []),
        ((ExchangeSpec("x", "t", "id", ("k",), "x.send", 0),), ("checkpoint/1",), 0, []),
        ((), ("step/1",), 2, []),
    ],
)
def test_what_was_exchanged_in_steps_that_are_dropped_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
    exchanges: tuple[ExchangeSpec, ...],
    forgotten: tuple[str, ...],
    first_step: int,
    asked: list[tuple[tuple[str, ...], int, tuple[int, ...]]],
) -> None:
    made = replace(checkpoint(4, 1), first_step=first_step)
    known = replace(spec_of("p", nodes=2, inputs={"in": 1}, outputs={"out": 1}), exchanges=exchanges)
    initial = CoordinatorState.initial(known.pipeline, transactional_id="t", steps_topic="s")
    state = decide(initial, ControlSeen(Logged(0, 0, known), 0)).state
    script = Script(
        monkeypatch,
        {Assigned: [InitProducer(1_000)], ProducerReady: [CommitCheckpoint(5, 6, made, 9, forgotten)]},
    )
    world, purges = World(), Purges()

    async def act() -> None:
        ports = CoordinatorPorts(world, world, Steps(world), world, purges)
        running = asyncio.create_task(CoordinatorSession(state, ports, deadline_ms=1_000).run())
        await until(lambda: CheckpointCommitted(4, 1_000) in script.events)
        await asyncio.sleep(0)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(act(), HANG_S))
    assert purges.asked == asked


def test_the_end_is_proved_under_the_epoch_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, {Assigned: [InitProducer(1_000)], ProducerReady: [ProveEnd(5, 6)]})
    world = World()

    async def act(_session: CoordinatorSession) -> None:
        await until(lambda: EndProved(1_000) in script.events)

    drive(world, act)
    assert world.proved == [(5, 6)]


def test_a_resigned_session_returns_why(monkeypatch: pytest.MonkeyPatch) -> None:
    Script(monkeypatch, {Assigned: [Resign("a newer one")]})
    assert asyncio.run(asyncio.wait_for(session(World()).run(), HANG_S)) == "a newer one"


def test_a_session_that_resigns_at_once_leaves_no_request_that_nobody_awaits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Script(monkeypatch, {Assigned: [InitProducer(1_000), Resign("a newer one")]})
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(asyncio.wait_for(session(World()).run(), HANG_S))
    assert [str(warning.message) for warning in warned] == []


def test_a_session_of_a_deleted_pipeline_says_nothing_and_ends() -> None:
    world = World()
    spec = replace(simulated_spec(1, 0, False, 0), pipeline="p")
    world.control.extend([Logged(3, 0, spec), Logged(4, 0, Tombstone("p/spec"))])
    made = session(world)
    assert asyncio.run(asyncio.wait_for(made.run(), HANG_S)) == "the pipeline was deleted"
    assert (made.deleted_at, world.said) == (4, [])
