"""Which coordinator is assigned which partition when members come and go, asked as Kafka's client asks."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import faust
import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from kcontrol.adapters.faust.assignor import SettledAssignor

TOPIC = "control"
PARTITIONS = 8


class Topics:
    """What the client knows of the cluster."""

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == TOPIC
        return set(range(PARTITIONS))


class Group:
    """Of members, each with an application of its own; the first is the leader."""

    def __init__(self) -> None:
        self._members: dict[str, Any] = {}

    def join(self, name: str, *, settled: bool) -> None:
        assignor = partial(SettledAssignor, settle_s=0.0 if settled else 3600.0)
        app = faust.App(name, broker="kafka://nowhere", store="memory://", PartitionAssignor=assignor)
        self._members[name] = app.assignor

    def join_older(self, name: str) -> None:
        """A member of a version with Faust's own assignor."""
        app = faust.App(name, broker="kafka://nowhere", store="memory://")
        self._members[name] = app.assignor

    def leave(self, name: str) -> None:
        del self._members[name]

    def shares(self) -> dict[str, set[int]]:
        """After a rebalance."""
        said: dict[str, ConsumerProtocolMemberMetadata] = {
            name: each.metadata({TOPIC}) for name, each in self._members.items()
        }
        leader = next(iter(self._members.values()))
        found: dict[str, ConsumerProtocolMemberAssignment] = leader.assign(Topics(), said)
        shares = {}
        for name, each in self._members.items():
            assert found[name].version == each.version
            each.on_assignment(_as_received(found[name]))
            shares[name] = {number for _, numbers in found[name].assignment for number in numbers}
        assert sorted(number for share in shares.values() for number in share) == list(range(PARTITIONS))
        return shares


def _as_received(given: ConsumerProtocolMemberAssignment) -> ConsumerProtocolMemberAssignment:
    return ConsumerProtocolMemberAssignment.decode(given.encode())


@pytest.fixture
def group() -> Group:
    return Group()


def sizes(shares: dict[str, set[int]]) -> Collection[int]:
    return sorted(len(share) for share in shares.values())


def test_who_has_just_joined_takes_nothing_from_those_at_work(group: Group) -> None:
    group.join("a", settled=False)
    assert len(group.shares()["a"]) == PARTITIONS, "the first has all, however new it is"
    group.join("b", settled=False)
    assert group.shares() == {"a": set(range(PARTITIONS)), "b": set()}


def test_once_it_has_been_there_for_a_while_it_has_its_share(group: Group) -> None:
    group.join("a", settled=False)
    group.shares()
    group.join("b", settled=True)
    assert sizes(group.shares()) == [PARTITIONS // 2, PARTITIONS // 2]


def test_who_comes_back_does_not_take_back_what_another_has_taken_over(group: Group) -> None:
    group.join("a", settled=True)
    group.join("b", settled=True)
    assert sizes(group.shares()) == [PARTITIONS // 2, PARTITIONS // 2]
    group.leave("a")
    assert len(group.shares()["b"]) == PARTITIONS
    group.join("a", settled=False)
    assert len(group.shares()["b"]) == PARTITIONS


def test_what_nobody_has_goes_to_those_that_were_there_and_nothing_else_moves(group: Group) -> None:
    for name in "abc":
        group.join(name, settled=True)
    before = group.shares()
    group.leave("c")
    group.join("d", settled=False)
    after = group.shares()
    assert after["d"] == set()
    assert all(before[name] <= after[name] for name in "ab")


def test_when_all_are_new_they_share(group: Group) -> None:
    for name in "ab":
        group.join(name, settled=False)
    assert sizes(group.shares()) == [PARTITIONS // 2, PARTITIONS // 2]


@pytest.mark.parametrize("older_leads", [False, True])
def test_members_of_an_older_version_have_their_share_at_once(group: Group, older_leads: bool) -> None:
    joins = [partial(group.join, "new", settled=True), partial(group.join_older, "old")]
    for join in reversed(joins) if older_leads else joins:
        join()
        group.shares()
    assert sizes(group.shares()) == [PARTITIONS // 2, PARTITIONS // 2]
