"""The value of a cluster as bytes: it comes back as it was, with the digest that it had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import SubmitJob, TaskFailed
from kcontrol.core.cluster.model import EMPTY, Proposed, Replica, TaskSpec
from kcontrol.core.model import Resume
from kcontrol.wire.cluster import entry_bytes
from kcontrol.wire.cluster_snapshot import PART_BYTES, parts_of, replica_of, snapshot_bytes
from kcontrol.wire.codec import HEADER_BYTES, RecordCodec
from tests.simulation.cluster.schedule import ClusterSchedule
from tests.unit.core.cluster.made import after, incarnation, joined, prepare


def full() -> Replica:
    """With something in every field."""
    value = joined("abc", slots=2, tags=("gpu",))
    tasks = (TaskSpec("nodes", 2, None, ("gpu",), 50), TaskSpec("side", 0, 1, ("ssd",)))
    value = after(value, SubmitJob("j", "r", value.offset, "file:j.py", tasks))
    value = after(value, prepare("d"), prepare("e"))
    unit, place = next(iter(value.places().items()))
    failed = TaskFailed(*unit, place.generation, place.agent, incarnation(place.agent), "é")
    value = after(value, failed)
    return replace(value, proposed=Proposed(3, "sha", "a"), allocations={**value.allocations, "empty": {}})


@pytest.mark.parametrize("value", [EMPTY, full()], ids=["empty", "full"])
def test_a_value_comes_back_with_its_digest(value: Replica) -> None:
    found = replica_of(snapshot_bytes(value))
    assert found == value
    assert found is not None
    assert digest(found) == digest(value)


def test_whatever_a_schedule_of_the_simulator_makes_comes_back() -> None:
    schedule = ClusterSchedule(3)
    for _ in range(60):
        schedule.tick(True)
        assert replica_of(snapshot_bytes(schedule.world.truth)) == schedule.world.truth


@pytest.mark.parametrize(
    "data",
    [
        b"",
        snapshot_bytes(EMPTY)[:-1],
        snapshot_bytes(EMPTY) + b"0",
        snapshot_bytes(EMPTY)[:HEADER_BYTES],
        RecordCodec().encode(Resume("p", "r")),
        entry_bytes(prepare("a")),
    ],
)
def test_what_is_no_snapshot_is_none(data: bytes) -> None:
    assert replica_of(data) is None


def test_parts_put_together_are_the_whole() -> None:
    data = bytes(range(256)) * (3 * PART_BYTES // 256) + b"rest"
    assert b"".join(parts_of(data)) == data
    assert max(map(len, parts_of(data))) <= PART_BYTES
