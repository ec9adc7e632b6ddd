"""How many rows may wait for a step, and when whoever pushes more may come again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from kcontrol.core.model import Logged, LoggedStep, NodeJoin, Received, ReceivedPartition, StepBoundary
from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.log import TooMuchError
from kcontrol.requests.push.rules import LONGEST_RETRY_S, MEASURED_STEPS, check_room, rows_per_s
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.made import SPEC, boundary

MOST = 100


def _steps(*ends: int, every_ms: int = 1_000) -> list[StepBoundary]:
    """Partition 0 is read from 5 to each of these, partition 1 never."""
    return [
        replace(boundary(step, (begin, 0), (end, 0)), committed_ms=1_000 + every_ms * step)
        for step, (begin, end) in enumerate(pairwise((5, *ends)), 1)
    ]


def _projection(*ends: int, reaches: tuple[int, int] = (0, 0), every_ms: int = 1_000) -> PipelineProjection:
    found = PipelineProjection("p")
    seen = tuple(ReceivedPartition(partition, "T1", 0, to) for partition, to in enumerate(reaches))
    records = [SPEC, NodeJoin("p", 0, "n", "h", 1), Received("p", 0, 1, "in", 1, seen, 0, 0)]
    found.see_control(Logged(offset, 0, record) for offset, record in enumerate(records))
    found.see_steps(LoggedStep(offset, each) for offset, each in enumerate(_steps(*ends, every_ms=every_ms)))
    return found


def _retry_s(found: PipelineProjection, rows: int, pushed: dict[int, int] | None = None) -> int | None:
    """After how long they may be pushed; None: now."""
    try:
        check_room(found, SPEC.inputs[0], pushed or {}, rows, MOST)
    except TooMuchError as refused:
        return refused.retry_after_s
    return None


def test_as_many_rows_as_there_is_room_for_are_taken_and_not_one_more() -> None:
    found = _projection(reaches=(45, 20))  # 40 and 20 wait
    assert _retry_s(found, MOST - 60) is None
    assert _retry_s(found, MOST - 59) == 5, "nobody knows when"
    with pytest.raises(TooMuchError, match="60 rows wait and 100 may; the pipeline has read none lately"):
        check_room(found, SPEC.inputs[0], {}, MOST, MOST)


def test_rows_that_are_being_written_take_room_too() -> None:
    found = _projection(reaches=(45, 0))
    check_room(found, SPEC.inputs[0], {}, 30, MOST, 30)
    with pytest.raises(TooMuchError, match="40 rows wait, 31 more are being written, and 100 may"):
        check_room(found, SPEC.inputs[0], {}, 30, MOST, 31)


def test_what_was_pushed_here_waits_too_whoever_has_seen_it() -> None:
    found = _projection(reaches=(45, 0))
    assert _retry_s(found, 60) is None
    assert _retry_s(found, 60, {1: 1}) == 5
    assert _retry_s(found, 60, {0: 30}) is None, "these were seen"


def test_it_is_told_to_come_again_when_the_pipeline_will_have_read_so_many() -> None:
    found = _projection(5, 15, 25, reaches=(125, 0))  # 10 rows/s, and 100 wait
    assert rows_per_s(found, "in") == 10
    assert _retry_s(found, 1) == 1
    assert _retry_s(found, 11) == 2
    assert _retry_s(found, MOST) == 10
    with pytest.raises(TooMuchError, match="the pipeline reads 10 rows/s"):
        check_room(found, SPEC.inputs[0], {}, 1, MOST)
    slow = _projection(5, 15, 25, reaches=(125, 0), every_ms=1_000_000)
    assert _retry_s(slow, MOST) == LONGEST_RETRY_S


def test_how_fast_it_reads_the_newest_steps_say() -> None:
    assert rows_per_s(_projection(15), "in") == 0, "of one step nobody knows how long it took"
    ends = [1_000_000, *(1_000_000 + each for each in range(1, MEASURED_STEPS + 1))]
    assert rows_per_s(_projection(*ends), "in") == 1


def test_a_request_that_would_never_have_room_is_not_told_to_come_again() -> None:
    with pytest.raises(ConfigurationError, match="101 rows in a request, and 100 may wait at most"):
        check_room(_projection(), SPEC.inputs[0], {}, MOST + 1, MOST)
