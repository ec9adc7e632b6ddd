"""The worked examples of joins and deaths, replica by replica and reaction by reaction.

They are those of Onyx's design document (commit 672a05e83): seven joins, four deaths; and some of our own. `sends` is what each
living peer newly has to send once it has applied the entry; `seed_watches` are the watches that the example
adds and removes. Ours is kept until the join is accepted, where the example drops it at the notification.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcontrol.core.cluster.duties import Identity, duties, watched
from kcontrol.core.cluster.entries import Abort, Accept, ClusterEntry, Leave, Notify, PeerGc
from kcontrol.core.cluster.model import AgentStage, Replica
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.ring import is_ring
from tests.unit.core.cluster.made import EXAMPLES, hears, incarnation, prepare, ring_of

WORKED, OWN = EXAMPLES["ring"], EXAMPLES["ring, our own"]
RING = {**WORKED, **OWN}


def entry_of(data: dict[str, str]) -> ClusterEntry:
    name = data.get("agent", "")
    by = data.get("by", "")
    kinds = {"accept": Accept, "abort": Abort, "leave": Leave}
    match data["do"]:
        case "prepare":
            return prepare(name, once=True)
        case "notify":
            return Notify(name, incarnation(name))
        case "peer-gc":
            return PeerGc(by, incarnation(by))
        case kind:
            return kinds[kind](name, incarnation(name), by, incarnation(by))


def asked(replica: Replica, name: str, dead: set[str]) -> list[str]:
    """What it has to send, when it hears all but the dead."""
    me = Identity(name, incarnation(name), 1)
    due = duties(replica, me, hears(replica, name, dead))
    return [f"{type(one).__name__.lower()} {one.agent}" for one in due]


class Example:
    """One example while it is played."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.replica = ring_of(case["before"]["members"], case["first"] - 1)
        assert dict(self.replica.pairs) == case["before"]["pairs"]
        self.everybody = [*case["before"]["members"], *case["others"]]
        self.dead = set(case.get("dead", ""))
        self.first = case["first"]

    def asked(self) -> dict[str, list[str]]:
        return {one: asked(self.replica, one, self.dead) for one in self.everybody if one not in self.dead}

    def play(self, number: int, step: dict[str, Any]) -> None:
        before = self.asked()
        self.dead |= set(step.get("dies", ""))
        self.replica, why = apply(self.replica, self.first + number, entry_of(step["entry"]))
        assert bool(why) == step.get("rejected", False), why
        parts = ("pairs", "prepared", "accepted")
        shown = {part: dict(getattr(self.replica, part)) for part in parts if getattr(self.replica, part)}
        assert shown == {part: value for part, value in step["then"].items() if value}
        assert is_ring(self.replica.pairs, self.replica.members)
        assert self.newly_asked(before, number) == step.get("sends", {})
        for name in step.get("joined", []):
            assert self.replica.stage(name) is AgentStage.MEMBER
        for name in step.get("aborted", []):
            assert self.replica.stage(name) is AgentStage.UNKNOWN
            assert asked(self.replica, name, self.dead) == [f"prepare {name}"]  # it may try again

    def newly_asked(self, before: dict[str, list[str]], number: int) -> dict[str, list[str]]:
        """Without the asking to join of those who are not in, as that is no reaction."""
        found = {}
        for name, all_ in self.asked().items():
            collects = name in self.replica.collectors
            new = [one for one in all_ if one not in before.get(name, []) or (collects and number == 0)]
            new = [one for one in new if collects or one != f"prepare {name}"]
            if new:
                found[name] = new
        return found


@pytest.mark.parametrize("name", RING)
def test_a_worked_example_of_the_ring(name: str) -> None:
    example = Example(RING[name])
    removed = []
    for number, step in enumerate(RING[name]["steps"]):
        example.play(number, step)
        for watch in step.get("seed_watches", []):
            who, whom = watch[1:].split(":")
            if watch[0] == "+":
                assert whom in watched(example.replica, who)
            else:
                removed.append((who, whom))
    for who, whom in removed:
        assert whom not in watched(example.replica, who)


def test_all_examples_are_there() -> None:
    assert len(WORKED) == 11
    assert len(RING) == len(WORKED) + len(OWN)
    assert len(EXAMPLES["allocation"]) == 24
