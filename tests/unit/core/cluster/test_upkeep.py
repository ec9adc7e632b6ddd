"""What operators ask of a cluster: once, however often and late it arrives, from level 5 on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    Configure,
    Drain,
    DrainAgent,
    Leave,
    Prepare,
    RaiseLevel,
    SetPolicy,
)
from kcontrol.core.cluster.model import AS_OF_LEVEL, LATEST_LEVEL, ClusterPolicy, Replica, Scheduler
from kcontrol.wire.cluster_snapshot import replica_of, snapshot_bytes
from tests.unit.core.cluster.made import after, incarnation, joined, rejection

POLICY = ClusterPolicy(scheduler=Scheduler.GREEDY)


def at_level(level: int) -> Replica:
    """Agents a and b that know all levels."""
    value = joined("ab")
    levels = (1, LATEST_LEVEL)
    for name in "ab":
        value = after(value, Prepare(name, f"{name}-2", incarnation(name), levels=levels))
    return after(value, *(RaiseLevel(each) for each in range(2, level + 1)))


def test_a_second_copy_of_a_drain_that_comes_late_changes_nothing() -> None:
    before = at_level(AS_OF_LEVEL)
    on = DrainAgent("a", True, before.offset)
    drained = after(before, on)
    assert drained.agents["a"].draining
    assert "changed since" in rejection(drained, on)
    off = after(drained, DrainAgent("a", False, drained.offset))
    assert "changed since" in rejection(off, on)
    assert "nothing to change" in rejection(off, DrainAgent("a", False, off.offset))
    assert after(off, DrainAgent("b", True, before.offset)).agents["b"].draining, (
        "of another agent nothing was said"
    )
    renewed = after(off, Prepare("a", "a-3", "a-2", levels=(1, LATEST_LEVEL)))
    assert "changed since" in rejection(renewed, on)


def test_a_drain_says_nothing_of_an_agent_that_has_left_and_come_back() -> None:
    before = at_level(AS_OF_LEVEL)
    on = DrainAgent("a", True, before.offset)
    gone = after(before, Leave("a", "a-2", "b", "b-2"))
    assert "no such agent" in rejection(gone, on)
    back = after(gone, Prepare("a", "a-3", levels=(1, LATEST_LEVEL)))
    assert "changed since" in rejection(back, on)


def test_a_second_copy_of_a_policy_that_comes_late_changes_nothing() -> None:
    before = at_level(AS_OF_LEVEL)
    asked = SetPolicy(POLICY, before.offset)
    greedy = after(before, asked)
    assert greedy.policy == POLICY
    assert "changed since" in rejection(greedy, asked)
    back = after(greedy, SetPolicy(ClusterPolicy(), greedy.offset))
    assert "changed since" in rejection(back, asked)
    assert "makes no sense" in rejection(back, SetPolicy(replace(POLICY, beat_ms=0), back.offset))


@pytest.mark.parametrize("entry", [Drain("a", True), Configure(POLICY)], ids=str)
def test_what_does_not_say_as_of_when_counts_below_that_level_only(entry: ClusterEntry) -> None:
    below = at_level(AS_OF_LEVEL - 1)
    assert rejection(below, entry) == ""
    assert "as of which entry" in rejection(at_level(AS_OF_LEVEL), entry)
    late = after(below, entry, RaiseLevel(AS_OF_LEVEL))
    undone: list[ClusterEntry] = [
        DrainAgent("a", False, late.offset),
        SetPolicy(ClusterPolicy(), late.offset),
    ]
    assert "as of which entry" in rejection(after(late, undone[isinstance(entry, Configure)]), entry)


def test_what_says_as_of_when_counts_from_that_level_on_only() -> None:
    below = at_level(AS_OF_LEVEL - 1)
    for entry in (DrainAgent("a", True, below.offset), SetPolicy(POLICY, below.offset)):
        assert rejection(below, entry) == f"it needs level {AS_OF_LEVEL}"
        assert "read what comes after it" in rejection(
            at_level(AS_OF_LEVEL), replace(entry, as_of=below.offset + 5)
        )


def test_a_snapshot_keeps_as_of_when_operators_were_heard() -> None:
    value = at_level(AS_OF_LEVEL)
    value = after(value, DrainAgent("a", True, value.offset))
    value = after(value, SetPolicy(POLICY, value.offset))
    found = replica_of(snapshot_bytes(value))
    assert found == value
    assert found is not None
    assert (found.agents["a"].touched, found.configured) == (value.offset - 1, value.offset)
    assert digest(found) == digest(value)
    assert digest(replace(value, configured=0)) != digest(value)
