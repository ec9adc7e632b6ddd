"""How long input waits: from its first report to the commit of its step."""

from __future__ import annotations

from kcontrol.core.model import Received, ReceivedPartition
from kcontrol.views.waiting import MAX_MARKS, InputBacklog


def received(*to: int, name: str = "in") -> Received:
    parts = tuple(ReceivedPartition(partition, "T", 0, end) for partition, end in enumerate(to))
    return Received("p", 0, 1, name, 1, parts, 0, 0)


def test_the_oldest_report_counts_until_its_input_is_committed() -> None:
    waiting = InputBacklog()
    done = {("in", 0): 5, ("in", 1): 0}
    waiting.reported(received(5, 0), 100, done)
    assert waiting.since_ms("in") is None
    waiting.reported(received(7, 0), 200, done)
    waiting.reported(received(9, 3), 300, done)
    waiting.reported(received(1, name="other"), 50, {("other", 0): 0})
    assert waiting.since_ms("in") == 200
    waiting.committed({("in", 0): 7, ("in", 1): 0, ("other", 0): 0})
    assert waiting.since_ms("in") == 300
    waiting.committed({("in", 0): 9, ("in", 1): 3, ("other", 0): 0})
    assert waiting.since_ms("in") is None
    assert waiting.since_ms("other") == 50


def test_a_part_of_what_was_reported_at_once_still_waits() -> None:
    waiting = InputBacklog()
    waiting.reported(received(9), 200, {("in", 0): 0})
    waiting.committed({("in", 0): 4})
    assert waiting.since_ms("in") == 200


def test_a_long_wait_is_never_said_too_short_however_many_reports_there_were() -> None:
    waiting = InputBacklog()
    for number in range(1, 3 * MAX_MARKS):
        waiting.reported(received(number), number, {("in", 0): 0})
    for done in (0, 1, MAX_MARKS // 2, MAX_MARKS, 2 * MAX_MARKS):
        waiting.committed({("in", 0): done})
        since_ms = waiting.since_ms("in")
        assert since_ms is not None
        assert since_ms <= done + 1
