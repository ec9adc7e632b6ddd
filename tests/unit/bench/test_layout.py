"""What of a change's gap is whose, and how it is compared."""

from __future__ import annotations

from typing import Any

from bench.layout.load import PAYLOAD_BYTES, keys_of
from bench.layout.parts import Change, gaps_ms, parts
from kcontrol.core.model import (
    CheckpointPart,
    Command,
    CommandKind,
    ControlRecord,
    Logged,
    NodeJoin,
    NodePhase,
    NodeState,
)


def _boundary(step: int, committed_ms: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "committed_ms": committed_ms, "nodes": 2, "work": [], **more}


def _command(kind: CommandKind, node: int = 0) -> Command:
    return Command("p", 1, 1, node, 50 + node, kind, 7, None)


def _state(node: int, incarnation: int, phase: NodePhase, step: int) -> NodeState:
    return NodeState("p", node, incarnation, phase, step, None, 1, 1, 1, (7,), "", 1, 7)


def _said(*records: tuple[int, int, ControlRecord]) -> list[Logged]:
    return [Logged(offset, ms, record) for offset, ms, record in records]


def test_each_part_ends_with_the_last_node_that_was_through_with_it() -> None:
    control = _said(
        (1, 900, NodeJoin("p", 0, "before", "h", 1)),  # Before the gap: it does not count.
        (10, 1_010, _command(CommandKind.CHECKPOINT)),
        (11, 1_100, CheckpointPart("p", 0, 3, 1, 1, 7, "m", 1, 1, "")),
        (12, 1_050, CheckpointPart("p", 1, 4, 1, 1, 6, "m", 1, 1, "")),  # Of another step.
        (50, 1_400, NodeJoin("p", 0, "a", "h", 1)),
        (51, 1_500, NodeJoin("p", 1, "b", "h", 2)),
        (52, 1_600, _state(0, 50, NodePhase.CLOSED, 0)),
        (53, 1_700, _state(1, 51, NodePhase.CLOSED, 0)),
        (54, 1_720, _command(CommandKind.OPEN)),
        (55, 1_750, _command(CommandKind.OPEN, 1)),
        (56, 2_000, _state(1, 51, NodePhase.OPEN, 7)),
        (57, 2_500, _state(0, 50, NodePhase.OPEN, 7)),
        (58, 2_900, _state(0, 50, NodePhase.OPEN, 7)),  # Said once more: it was open already.
    )
    work = [{"begun_ms": 2_600, "written_ms": 3_000}, {"begun_ms": 2_550, "written_ms": 3_100}]
    found = parts(control, _boundary(7, 1_000), _boundary(8, 3_150, work=work), number=1, made_ms=1_150)
    assert [each.ms for each in found] == [10, 90, 50, 0, 350, 200, 50, 750, 100, 0, 500, 50]
    assert sum(each.ms for each in found) == 3_150 - 1_000


def test_a_part_that_ends_before_the_one_before_it_lasts_nothing() -> None:
    found = parts((), _boundary(7, 1_000), _boundary(8, 1_400), number=1, made_ms=1_100)
    assert [each.ms for each in found if each.ms] == [100, 300]


def test_gaps_and_bytes_are_compared_with_the_optimum() -> None:
    gaps = gaps_ms([_boundary(1, 0), _boundary(2, 200), _boundary(3, 500), _boundary(4, 3_000)])
    change = Change(1, 2, 3, gaps, gaps[-1], (), moved_bytes=300, optimum_bytes=200)
    assert (change.longest_ms, change.median_ms, change.moved_ratio) == (2_500, 300, 1.5)
    assert keys_of(100) * PAYLOAD_BYTES == 100e6
