"""Entries and beats of the cluster as bytes: each comes back, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from kcontrol.core.cluster.entries import (
    Abort,
    Accept,
    ClusterEntry,
    CompleteTask,
    Configure,
    ConfirmSnapshot,
    Drain,
    DrainAgent,
    FitJob,
    JobResized,
    KillJob,
    Leave,
    Notify,
    PeerGc,
    Prepare,
    ProposeSnapshot,
    RaiseLevel,
    ResizeJob,
    SetBounds,
    SetPolicy,
    SetStandbys,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy, Mark, Scheduler, TaskSpec
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.core.model import Resume
from kcontrol.errors import UnknownRecordError
from kcontrol.wire.cluster import (
    CLUSTER_CLASSES,
    KINDS,
    MAX_ENTRY_BYTES,
    beat_bytes,
    beat_of,
    entry_bytes,
    entry_of,
    troubles_bytes,
    troubles_of,
)
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, RecordCodec
from kcontrol.wire.schemas import released_schemas

TASKS = (TaskSpec("nodes", 1, None, ("gpu",), 30), TaskSpec("side", 0, 2))
ENTRIES: list[ClusterEntry] = [
    Prepare("a", "a-2", "a-1", True, 4, ("gpu", "ssd"), (1, 2), True, 99),
    Notify("a", "a-1"),
    Accept("a", "a-1", "b", "b-1"),
    Abort("a", "a-1", "b", "b-1"),
    Leave("a", "a-1", "b", "b-1", "silent"),
    PeerGc("a", "a-1", (1, 2)),
    SubmitJob("j", "r", 7, "file:x.py", TASKS, Scheduler.GREEDY, 40),
    KillJob("j", "r", 7),
    ResizeJob("j", "r", 7, 3),
    JobResized("j", 7, 9, 3),
    SetStandbys("j", "r-4", 7, 2),
    SetBounds("j", "r-5", 7, 2, None, 75),
    FitJob("j", 7, 9, 3, True),
    CompleteTask("j", 7, "nodes"),
    TaskFailed("j", "nodes", 2, 7, "a", "a-1", "é", True),
    Drain("a", True),
    Configure(ClusterPolicy(Scheduler.PERCENTAGE, 3, beat_ms=700)),
    DrainAgent("a", True, 7),
    SetPolicy(ClusterPolicy(Scheduler.PERCENTAGE, 3, beat_ms=700), 7),
    RaiseLevel(2),
    ProposeSnapshot("a", "a-1", 40, "sha"),
    ConfirmSnapshot("b", "b-1", 40, "sha"),
]
SUBMIT = ENTRIES[6]


def test_every_entry_comes_back_as_it_was() -> None:
    assert {type(entry).__name__ for entry in ENTRIES} == set(KINDS)
    for entry in ENTRIES:
        found = entry_of(3, entry_bytes(entry), 99)
        assert (found.offset, found.entry, found.at_ms) == (3, entry, 99)


def test_a_beat_comes_back_as_it_was() -> None:
    beat = Beat("a", "a-1", 3, True, 17, Mark(10, "sha"), "a-0")
    assert beat_of(beat_bytes(beat)) == beat
    assert beat_of(b"{}") is None
    assert beat_of(entry_bytes(SUBMIT)) is None
    assert beat_of(None) is None


def test_what_is_said_beside_beats_comes_back_as_it_was() -> None:
    said = AgentTroubles("a", "a-1", ("é", ""))
    assert troubles_of(troubles_bytes(said)) == said
    assert beat_of(troubles_bytes(said)) is None, "it is no beat, also to those who do not know it"
    assert troubles_of(beat_bytes(Beat("a", "a-1", 0, False, 0))) is None
    assert troubles_of(None) is None


def levels(*some: int) -> bytes:
    return entry_bytes(Prepare("a", "a-1", levels=some))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xff",
        b"{}",
        entry_bytes(SUBMIT)[2:],
        entry_bytes(SUBMIT)[:-1],
        entry_bytes(SUBMIT) + b"0",
        MAGIC + bytes(8) + entry_bytes(SUBMIT)[HEADER_BYTES:],
        entry_bytes(SUBMIT)[:HEADER_BYTES] + b"\xff" * 20,
        entry_bytes(SUBMIT)[:HEADER_BYTES] + entry_bytes(ENTRIES[0])[HEADER_BYTES:],
        beat_bytes(Beat("a", "a-1", 0, False, 0)),
        troubles_bytes(AgentTroubles("a", "a-1")),
        RecordCodec().encode(Resume("p", "r")),
        levels(),
        levels(1),
        levels(1, 2, 3),
    ],
)
def test_what_is_no_entry_is_none_and_stops_nobody(data: bytes | None) -> None:
    assert entry_of(5, data, 0).entry is None


def test_no_kind_has_a_version_that_an_agent_of_this_level_may_not_know() -> None:
    """With a second one comes a level, and `entry_of` is told at which level it reads (decision 111)."""
    assert {name: len(released_schemas()[name]) for name in CLUSTER_CLASSES} == dict.fromkeys(
        CLUSTER_CLASSES, 1
    )


def test_an_entry_of_the_cluster_is_nothing_in_a_topic_of_a_pipeline() -> None:
    with pytest.raises(UnknownRecordError):
        RecordCodec().decode(entry_bytes(SUBMIT))


def test_an_entry_that_is_too_large_is_not_written() -> None:
    with pytest.raises(ValueError, match="larger than"):
        entry_bytes(TaskFailed("j", "n", 0, 0, "a", "a-1", "x" * MAX_ENTRY_BYTES))
