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
        self._generation = 0

    def join(self, name: str, *, settled: bool) -> None:
        assignor = partial(
            SettledAssignor, settle_s=0.0 if settled else 3600.0, generation=lambda: self._generation
        )
        app = faust.App(name, broker="kafka://nowhere", store="memory://", PartitionAssignor=assignor)
        self._members[name] = app.assignor

    def join_older(self, name: str) -> None:
        """A member of a version with Faust's own assignor."""
        app = faust.App(name, broker="kafka://nowhere", store="memory://")
        self._members[name] = app.assignor

    def leave(self, name: str) -> Any:
        return self._members.pop(name)

    def come_back(self, name: str, member: Any) -> None:
        """One that left knows what it had."""
        self._members[name] = member

    def shares(self, deaf: str = "") -> dict[str, set[int]]:
        """After a rebalance. deaf: is not told what it has now."""
        self._generation += 1
        said: dict[str, ConsumerProtocolMemberMetadata] = {
            name: each.metadata({TOPIC}) for name, each in self._members.items()
        }
        leader = next(iter(self._members.values()))
        found: dict[str, ConsumerProtocolMemberAssignment] = leader.assign(Topics(), said)
        shares = {}
        for name, each in self._members.items():
            assert found[name].version == each.version
            if name != deaf:
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


@pytest.mark.parametrize("settled", [False, True])
def test_who_was_put_out_does_not_take_back_what_another_was_given_meanwhile(
    group: Group, settled: bool
) -> None:
    """It hung, or its host was given up: it comes back and believes that all is as it was."""
    group.join("a", settled=settled)
    group.shares()
    group.join("b", settled=settled)
    group.shares()
    put_out = group.leave("a")
    group.shares()
    group.come_back("a", put_out)
    assert group.shares() == {"a": set(), "b": set(range(PARTITIONS))}
    assert put_out.waits_for_share


def test_who_was_put_out_has_a_share_again_after_a_while(group: Group) -> None:
    for name in "ab":
        group.join(name, settled=True)
    group.shares()
    put_out = group.leave("a")
    group.shares()
    group.come_back("a", put_out)
    group.shares()
    assert put_out.unsettled_s == 0, "the while is over"
    assert sizes(group.shares()) == [PARTITIONS // 2, PARTITIONS // 2]
    assert not put_out.waits_for_share


def test_who_was_put_out_and_is_back_before_another_was_given_anything_keeps_what_it_has(
    group: Group,
) -> None:
    group.join("a", settled=False)
    group.shares()
    group.join("b", settled=False)
    group.shares()
    group.come_back("a", group.leave("a"))
    assert group.shares() == {"a": set(range(PARTITIONS)), "b": set()}


def test_who_has_not_heard_of_a_rebalance_loses_only_what_it_gave_to_others(group: Group) -> None:
    group.join("a", settled=True)
    group.shares()
    group.join("b", settled=True)
    given = group.shares(deaf="a")
    assert sizes(given) == [PARTITIONS // 2, PARTITIONS // 2]
    assert group.shares() == given


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
