"""What of the time without a host is whose."""

from __future__ import annotations

from typing import Any

import pytest

from bench.hosts.parts import (
    NODE_ALONE,
    WITH_COORDINATOR,
    HostDeath,
    by_what,
    first_by_another,
    joined_as,
    noticed_ms,
    parts,
    spent,
)
from bench.layout.parts import Part
from kcontrol.core.cluster.entries import Leave, Notify
from kcontrol.core.model import Command, CommandKind, ControlRecord, Logged, NodeJoin, NodePhase, NodeState
from kcontrol.wire.cluster import StampedEntry

KILLED_MS = 1_000


def _step(step: int, process: int, opened_ms: int = 0, committed_ms: int = 0) -> dict[str, Any]:
    token = {"incarnations": [process], "claim_epoch": 3}
    return {"step": step, "token": token, "opened_ms": opened_ms, "committed_ms": committed_ms}


def _state(process: int, phase: NodePhase, step: int) -> NodeState:
    return NodeState("p", 0, process, phase, step, None, 1, 1, 1, (7,), "", 1, 7)


def _command(process: int, kind: CommandKind) -> Command:
    return Command("p", 1, 1, 0, process, kind, 7, None)


def _said(*records: tuple[int, int, ControlRecord]) -> list[Logged]:
    return [Logged(offset, ms, record) for offset, ms, record in records]


CONTROL = _said(
    (10, 500, NodeJoin("p", 0, "before", "h", 1)),
    (11, 600, _command(10, CommandKind.OPEN)),
    (12, 999, _state(10, NodePhase.OPEN, 9)),
    (50, 12_000, NodeJoin("p", 0, "a", "h", 2)),
    (51, 12_300, _state(50, NodePhase.CLOSED, 0)),
    (52, 12_350, _command(50, CommandKind.OPEN)),
    (53, 12_400, _state(50, NodePhase.CLOSED, 0)),
    (54, 18_000, _state(50, NodePhase.RUNNING, 7)),
    (55, 18_500, _state(50, NodePhase.RUNNING, 8)),
    (56, 20_000, _state(50, NodePhase.OPEN, 9)),
    (57, 20_100, _command(50, CommandKind.STEP)),
)


def test_each_part_of_the_time_without_a_host_ends_with_what_was_said_of_it() -> None:
    step = _step(10, 50, 20_050, 20_500)
    found = parts(KILLED_MS, 9_000, 9_600, CONTROL, step)
    assert [each.ms for each in found] == [8_000, 600, 2_400, 300, 50, 5_650, 2_000, 50, 450]
    assert sum(each.ms for each in found) == 20_500 - KILLED_MS


def test_where_no_step_is_made_again_that_lasts_nothing() -> None:
    control = [each for each in CONTROL if each.offset not in (54, 55)]
    found = parts(KILLED_MS, 9_000, 9_600, control, _step(10, 50, 20_050, 20_500))
    assert [each.ms for each in found][-4:] == [7_650, 0, 50, 450]


def test_a_step_that_the_dead_process_has_made_is_none_after_it() -> None:
    """Though it was begun when the host was being killed."""
    steps = [_step(1, 10), _step(2, 10), _step(3, 10)]
    assert first_by_another(steps, 10) is None
    assert first_by_another([*steps, _step(4, 50), _step(5, 50)], 10) == _step(4, 50)


def test_a_host_is_noticed_when_the_log_has_it_that_it_has_left() -> None:
    def left(name: str, at_ms: int, offset: int) -> StampedEntry:
        return StampedEntry(offset, Leave(name, f"{name}-1", "b", "b-1", "silent"), at_ms)

    log = [left("a", 900, 1), StampedEntry(2, None, 1_100), StampedEntry(3, Notify("a", "a-1"), 1_200)]
    with pytest.raises(ValueError, match="nobody has said that a is gone"):
        noticed_ms(log, "a", KILLED_MS)
    assert noticed_ms([*log, left("c", 8_000, 4), left("a", 9_000, 5)], "a", KILLED_MS) == 9_000
    with pytest.raises(ValueError, match="no process has joined at 51"):
        joined_as(CONTROL, 51)


def test_deaths_are_counted_by_what_died() -> None:
    deaths = [
        HostDeath("a", "b", coordinator, ms, (Part("noticed", ms / 2), Part("the rest", ms / 2)))
        for coordinator, ms in ((True, 20_000), (False, 10_000), (True, 30_000))
    ]
    assert {what: spread.median for what, spread in by_what(deaths).items()} == {
        "all": 20_000,
        NODE_ALONE: 10_000,
        WITH_COORDINATOR: 25_000,
    }
    assert list(by_what(deaths[:1])) == ["all", WITH_COORDINATOR]
    assert {what: spread.median for what, spread in spent(deaths).items()} == {
        "noticed": 10_000,
        "the rest": 10_000,
    }
