"""Rules that live in the sessions and not in the cores, switched off: only this simulator
can find what they are there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.core.events import FinishStep, Publish, RunStage, Tick
from kcontrol.sessions import node
from kcontrol.sessions.arrivals import paced
from kcontrol.sessions.checkpoint_parts import CheckpointParts
from kcontrol.sessions.coordinator import CoordinatorSession
from kcontrol.sessions.engine_jobs import EngineJobs
from kcontrol.sessions.ports import Arrival, Arrivals
from kcontrol.sessions.publisher import Publisher
from tests.simulation import ports
from tests.simulation.breaking import Patches
from tests.simulation.exchanged import ONE_WATERMARK
from tests.simulation.invariants import Violation
from tests.simulation.sessions.exchange_faults import takeover_between_stages
from tests.simulation.sessions.faults import (
    Fault,
    agent_deaf,
    coordinator_killed,
    engine_slow,
    leader_elected,
    leaders_move_around_a_fence,
    line_deaf,
    records_not_pushed,
    takeover_beside_a_living_coordinator,
)
from tests.simulation.sessions.ledger import CANCELLED, SAID, SEEN
from tests.simulation.sessions.processes import JOINED
from tests.simulation.sessions.schedule import run_sessions

_SCHEDULES = 150
_PROGRESS = "without faults the pipeline makes progress"
_PINNED = "a pin replaces one whose saving has ended"
_TWICE = ("no two committed attempts", "checkpoint monotone", "no two checkpoint records for a step")


@dataclass(frozen=True)
class Rule:
    """A rule of the sessions by what switches it off, the invariants of which one then breaks, and how to get
    there."""

    broken: Callable[[], Patches]
    invariants: tuple[str, ...]
    begin: int = 0
    likely: tuple[Fault, ...] = ()
    stages: int = 1
    """Of every step, where there are several nodes."""

    def __str__(self) -> str:
        return self.broken.__name__.strip("_")


def _the_last_words_go_first() -> Patches:
    """What waits to be published is taken from the wrong end."""

    def put(self: Publisher, publish: Publish) -> None:
        self._waiting.appendleft(publish)
        self._idle.clear()
        self._arrived.set()

    return (patch.object(Publisher, "put", put),)


def _gaps_are_passed_over() -> Patches:
    """A pushed record behind a gap is seen without reading what lies in the gap."""

    async def catch_up(self: CoordinatorSession, offset: int) -> None:
        self._next_offset = max(self._next_offset, offset)
        self._catching_up = False
        self._take_pushed()

    return (patch.object(CoordinatorSession, "_catch_up", catch_up),)


def _a_gap_is_read_to_whatever_end_a_broker_names() -> Patches:
    """As it was, until this simulator found what happens when the broker is behind."""

    async def catch_up(self: CoordinatorSession, offset: int) -> None:
        await self._read_control()
        self._next_offset = max(self._next_offset, offset)
        self._catching_up = False
        self._take_pushed()

    return (patch.object(CoordinatorSession, "_catch_up", catch_up),)


def _records_are_seen_as_often_as_they_come() -> Patches:
    right = CoordinatorSession._see

    def see(self: CoordinatorSession, offset: int, logged: Any) -> None:
        self._next_offset = min(self._next_offset, offset)
        right(self, offset, logged)

    return (patch.object(CoordinatorSession, "_see", see),)


def _time_passes_without_a_look() -> Patches:
    """However long nothing was pushed."""

    async def tick(self: CoordinatorSession) -> None:
        self._dispatch(Tick(self._now_ms(), self._ports.clock.now_ms()))

    return (patch.object(CoordinatorSession, "_tick", tick),)


def _cancelled_attempts_begin() -> Patches:
    """Those that were still in line when they were cancelled."""
    right = EngineJobs._carry_out
    return (patch.object(EngineJobs, "_carry_out", lambda self, effect, voided: right(self, effect, False)),)


def _cancelled_stages_begin() -> Patches:
    """Later ones that were still in line: the line is seldom that long."""
    right = EngineJobs._carry_out

    def carry_out(self: EngineJobs, effect: Any, voided: bool) -> Any:
        return right(self, effect, voided and not isinstance(effect, RunStage))

    return (patch.object(EngineJobs, "_carry_out", carry_out),)


def _an_engine_is_shown_no_watermark() -> Patches:
    right = EngineJobs.put

    def put(self: EngineJobs, effect: Any) -> None:
        right(self, FinishStep(effect.step) if isinstance(effect, FinishStep) else effect)

    return (patch.object(EngineJobs, "put", put),)


def _a_running_attempt_is_not_cancelled() -> Patches:
    def cancel(self: EngineJobs) -> None:
        self._cancels += 1

    return (patch.object(EngineJobs, "cancel", cancel),)


def _a_part_is_saved_while_the_next_is_pinned() -> Patches:
    async def end_saving(self: CheckpointParts, within_s: float | None = None) -> None:
        """Nothing is waited for."""

    return (patch.object(CheckpointParts, "end_saving", end_saving),)


def _the_first_arrival_counts() -> Patches:
    async def first(arrivals: Callable[[], Arrivals], pause_s: Callable[[], float]) -> Arrivals:
        told: list[Arrival] = []
        async for arrival in paced(arrivals, pause_s):
            told = told or [arrival]
            yield told[0]

    return (patch.object(node, "paced", first),)


def _nodes_do_not_read_through_their_join() -> Patches:
    return (patch.object(ports.BrokersControlLog, "read_through", lambda self, offset: self.read_to_end()),)


def _where_the_boundary_lies_is_not_looked_at() -> Patches:
    return (patch.object(ports, "lies_at_the_end", lambda offset, expected_offset: True),)


RULES = (
    Rule(_the_last_words_go_first, (SAID,)),
    Rule(_gaps_are_passed_over, (SEEN,), 1, (records_not_pushed,) * 4),
    Rule(
        _a_gap_is_read_to_whatever_end_a_broker_names, (SEEN,), 209, (leader_elected, records_not_pushed) * 8
    ),
    Rule(_records_are_seen_as_often_as_they_come, (SEEN,)),
    Rule(_time_passes_without_a_look, (_PROGRESS,), 4, (agent_deaf,)),
    Rule(_cancelled_attempts_begin, (CANCELLED,), 298, (line_deaf,) * 4),
    Rule(_cancelled_stages_begin, (CANCELLED,), 237, (line_deaf, takeover_between_stages) * 4, 3),
    Rule(_an_engine_is_shown_no_watermark, (ONE_WATERMARK,), stages=2),
    Rule(_a_running_attempt_is_not_cancelled, (CANCELLED,), 200),
    Rule(
        _a_part_is_saved_while_the_next_is_pinned,
        (_PINNED,),
        154,
        (engine_slow, engine_slow, coordinator_killed) * 2,
    ),
    Rule(_the_first_arrival_counts, (_PROGRESS,), 2),
    Rule(_nodes_do_not_read_through_their_join, (JOINED,), 79, (leader_elected,) * 4),
    Rule(
        _where_the_boundary_lies_is_not_looked_at,
        _TWICE,
        77,
        (leaders_move_around_a_fence, takeover_beside_a_living_coordinator) * 5,
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    found: Counter[str] = Counter()
    with ExitStack() as stack:
        for one in rule.broken():
            stack.enter_context(one)
        for seed in range(rule.begin, rule.begin + _SCHEDULES):
            try:
                run_sessions(seed, Counter(), likely=rule.likely, stages=rule.stages)
            except Violation as violation:
                if violation.name in rule.invariants:
                    print(f"seed {seed}: {violation.name}")  # noqa: T201
                    return
                found[violation.name] += 1
    pytest.fail(f"{_SCHEDULES} schedules did not find one of {rule.invariants}, only {found or 'nothing'}")
