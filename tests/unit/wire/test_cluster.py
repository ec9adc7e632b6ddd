"""Entries and beats of the cluster as bytes: each comes back, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest

from kcontrol.core.cluster.entries import (
    Abort,
    Accept,
    ClusterEntry,
    CompleteTask,
    Configure,
    ConfirmSnapshot,
    Drain,
    KillJob,
    Leave,
    Notify,
    PeerGc,
    Prepare,
    ProposeSnapshot,
    RaiseLevel,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy, Scheduler, TaskSpec
from kcontrol.wire.cluster import KINDS, MAX_ENTRY_BYTES, beat_bytes, beat_of, entry_bytes, entry_of

TASKS = (TaskSpec("nodes", 1, None, ("gpu",), 30), TaskSpec("side", 0, 2))
ENTRIES: list[ClusterEntry] = [
    Prepare("a", "a-2", "a-1", True, 4, ("gpu", "ssd"), (1, 2), True),
    Notify("a", "a-1"),
    Accept("a", "a-1", "b", "b-1"),
    Abort("a", "a-1", "b", "b-1"),
    Leave("a", "a-1", "b", "b-1", "silent"),
    PeerGc("a", "a-1", (1, 2)),
    SubmitJob("j", "r", 7, "file:x.py", TASKS, Scheduler.GREEDY, 40),
    KillJob("j", "r", 7),
    CompleteTask("j", 7, "nodes"),
    TaskFailed("j", "nodes", 2, 7, "a", "a-1", "é", True),
    Drain("a", True),
    Configure(ClusterPolicy(Scheduler.PERCENTAGE, 3, beat_ms=700)),
    RaiseLevel(2),
    ProposeSnapshot("a", "a-1", 40, "sha"),
    ConfirmSnapshot("b", "b-1", 40, "sha"),
]
SUBMIT = ENTRIES[6]


def test_every_entry_comes_back_as_it_was() -> None:
    assert {type(entry).__name__ for entry in ENTRIES} == set(KINDS)
    for entry in ENTRIES:
        found = entry_of(3, entry_bytes(entry, 1, 99))
        assert (found.offset, found.entry, found.at_ms) == (3, entry, 99)


def test_a_beat_comes_back_as_it_was() -> None:
    beat = Beat("a", "a-1", 3, True, 17, (10, "sha"), "a-0")
    assert beat_of(beat_bytes(beat)) == beat
    assert beat_of(b"{}") is None
    assert beat_of(None) is None


def changed(**parts: object) -> bytes:
    envelope = json.loads(entry_bytes(SUBMIT, 1, 0))
    envelope["entry"] |= parts
    return json.dumps(envelope).encode()


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"7",
        b'{"kind": "Prepare"}',
        b'{"kind": "Newer", "level": 9, "at_ms": 1, "entry": {}}',
        changed(as_of="7"),
        changed(as_of=7.5),
        changed(tasks=[{"name": 1}]),
        changed(task_scheduler="random"),
        changed(tasks=None),
    ],
)
def test_what_is_no_entry_is_none_and_stops_nobody(data: bytes | None) -> None:
    assert entry_of(5, data).entry is None


def test_an_entry_that_is_too_large_is_not_written() -> None:
    with pytest.raises(ValueError, match="larger than"):
        entry_bytes(TaskFailed("j", "n", 0, 0, "a", "a-1", "x" * MAX_ENTRY_BYTES), 1, 0)
