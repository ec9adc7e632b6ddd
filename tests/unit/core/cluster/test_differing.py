"""Agents that have made different values of one log are told, of two neither ends."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.differing import DifferingValue, HeardMarks
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import ClusterEntry, Configure, SubmitJob
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy, Mark, TaskSpec
from tests.unit.core.cluster.made import incarnation, joins

POLICY = ClusterPolicy(digest_every=3, snapshot_every=3)
LOG: list[ClusterEntry] = [Configure(POLICY), *joins("ab")]
"""Of five entries: digests at 0 and at 3."""
LIVES = {("a", "a-1"), ("b", "b-1"), ("c", "c-1")}


def machine(name: str, coordinators: int = 2) -> AgentMachine:
    """coordinators: what it takes the first entry for."""
    made = AgentMachine(Identity(name, incarnation(name), 1), AgentLimits(), 0)
    made.read(0, Configure(replace(POLICY, coordinators=coordinators)))
    read(made, *LOG[1:])
    return made


def read(one: AgentMachine, *entries: ClusterEntry) -> None:
    for entry in entries:
        one.read(one.next_offset, entry)
    one.read_to_end(0)


def beat(one: AgentMachine, now_ms: int) -> Beat:
    said = one.beat(now_ms)
    assert said is not None
    one.beat_sent(now_ms)
    return said


def test_of_two_that_differ_each_is_told_once_a_digest_and_neither_ends() -> None:
    a, b = machine("a"), machine("b", coordinators=1)
    for one, other, name in ((a, b, "b"), (b, a, "a")):
        one.hear(beat(other, 0))
        assert one.differences() == [DifferingValue(3, (name,))]
        one.hear(beat(other, POLICY.beat_ms))
        assert one.differences() == [], "it was told"
        assert not one.ended
    for one in (a, b):
        tasks = (TaskSpec("nodes", 1, 1),)
        read(one, *(SubmitJob(f"job-{at}", "r", 0, "p", tasks) for at in range(2)))
    a.hear(beat(b, 2 * POLICY.beat_ms))
    assert a.differences() == [DifferingValue(6, ("b",))]


def test_of_those_that_agree_and_of_who_is_not_known_nothing_is_told() -> None:
    a, b = machine("a"), machine("b")
    a.hear(beat(b, 0), Beat("x", "x-1", 0, False, 3, Mark(3, "another")))
    assert a.differences() == []


def test_who_looks_on_tells_by_the_newest_digests_that_can_be_compared() -> None:
    heard = HeardMarks()
    heard.hear([said("a", 0, "x"), said("b", 0, "y")])
    assert heard.differing(LIVES) == {"a": DifferingValue(0, ("b",)), "b": DifferingValue(0, ("a",))}
    heard.hear([said("a", 3, "z")])
    assert set(heard.differing(LIVES)) == {"a", "b"}, "nobody else has said the newest"
    heard.hear([said("b", 3, "z")])
    assert heard.differing(LIVES) == {}


def test_who_looks_on_tells_of_three_which_two_agree() -> None:
    heard = HeardMarks()
    heard.hear([said("a", 3, "x"), said("b", 3, "x"), said("c", 3, "y")])
    found = {agent: one.others for agent, one in heard.differing(LIVES).items()}
    assert found == {"a": ("c",), "b": ("c",), "c": ("a", "b")}
    assert heard.differing(LIVES - {("c", "c-1")}) == {}, "it is gone"


def test_so_many_offsets_are_remembered() -> None:
    heard = HeardMarks(offsets=2)
    heard.hear([said("a", 0, "x"), said("b", 0, "y"), said("a", 3, "x"), said("a", 6, "x")])
    assert heard.differing(LIVES) == {}


def said(agent: str, offset: int, digest: str) -> Beat:
    return Beat(agent, incarnation(agent), 0, False, offset, Mark(offset, digest))
