"""What can be read of the topic of snapshots, whatever was written to it, late or by halves."""

from __future__ import annotations

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.model import EMPTY, Agent, Mark, Replica
from kcontrol.errors import TopicError
from kcontrol.wire.cluster_snapshot import snapshot_bytes
from kcontrol.wire.stored_snapshots import StoredSnapshots, confirmed_key, part_key


def value_at(offset: int, founded_ms: int = 7, agents: str = "ab") -> Replica:
    known = {name: Agent(name, f"{name}-1", 0, slots=1) for name in agents}
    return EMPTY.but(offset=offset, founded_ms=founded_ms, agents=known)


class Topic(StoredSnapshots):
    """What was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.end = 0

    def write(self, key: bytes, value: bytes) -> None:
        self.add(self.end, key, value)
        self.end += 1

    def part(self, value: Replica, number: int, count: int = 2) -> None:
        data = snapshot_bytes(value)
        size = -(-len(data) // count)
        self.write(part_key(mark_of(value), number, count), data[number * size : (number + 1) * size])

    def save(self, value: Replica, count: int = 2) -> None:
        for number in range(count):
            self.part(value, number, count)

    def confirm(self, value: Replica) -> None:
        self.write(confirmed_key(mark_of(value)), b"")


def mark_of(value: Replica) -> Mark:
    return Mark(value.offset, digest(value))


OLD, NEW = value_at(10), value_at(20)


def test_who_stores_it_again_and_stops_halfway_makes_nothing_unreadable() -> None:
    """The same value has other bytes if its author has gone on from a snapshot, or is of another version."""
    other = value_at(20, agents="ba")
    assert mark_of(other) == mark_of(NEW)
    assert snapshot_bytes(other) != snapshot_bytes(NEW)
    for count in (2, 3):
        topic = Topic()
        topic.save(NEW)
        topic.confirm(NEW)
        topic.part(other, 1, count)
        assert topic.newest_confirmed() == NEW
        assert topic.holds(mark_of(NEW))


def test_who_stopped_halfway_is_no_harm_to_who_stores_it_then() -> None:
    for count in (2, 3):
        topic = Topic()
        topic.part(value_at(20, agents="ba"), 0, count)
        topic.save(NEW)
        assert topic.holds(mark_of(NEW))


def test_what_is_newer_stays_though_it_was_stored_before() -> None:
    topic = Topic()
    topic.save(value_at(5))
    topic.part(NEW, 0)
    topic.save(OLD)
    assert topic.needless_before(mark_of(OLD)) == 2
    topic.part(NEW, 1)
    assert topic.needless_before(mark_of(NEW)) == 2


def test_who_is_late_cuts_before_nothing_that_was_stored_anew() -> None:
    topic = Topic()
    topic.save(NEW)
    topic.confirm(NEW)
    topic.save(OLD)
    assert topic.holds(mark_of(OLD))
    assert topic.needless_before(mark_of(OLD)) is None


def test_what_is_confirmed_and_not_there_any_more_is_no_obstacle() -> None:
    topic = Topic()
    topic.save(OLD)
    topic.confirm(NEW)
    assert topic.needless_before(mark_of(OLD)) == 0


def test_those_of_a_log_that_was_deleted_are_needless() -> None:
    topic = Topic()
    strange = value_at(500, founded_ms=3)
    topic.save(strange)
    topic.confirm(strange)
    topic.save(OLD)
    assert topic.needless_before(mark_of(OLD)) == 3
    topic.save(strange)
    with pytest.raises(TopicError, match="another log"):
        topic.needless_before(mark_of(OLD))
