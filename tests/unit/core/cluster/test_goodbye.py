"""An agent that is asked to go while it is still joining gives up its join itself."""

from __future__ import annotations

import pytest

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import Abort, ClusterEntry, Leave, Notify
from tests.unit.core.cluster.made import incarnation, prepare

WAITS: list[ClusterEntry] = [prepare("a"), prepare("b"), prepare("c")]


@pytest.mark.parametrize(
    ("name", "log", "goodbye"),
    [
        ("c", WAITS, Abort),
        ("b", WAITS, Abort),
        ("b", [*WAITS, Notify("b", incarnation("b"))], Abort),
        ("a", WAITS, Leave),
    ],
    ids=["waiting", "prepared", "accepted", "member"],
)
def test_who_is_asked_to_go_says_so_in_whatever_stage_it_is(
    name: str, log: list[ClusterEntry], goodbye: type[ClusterEntry]
) -> None:
    machine = AgentMachine(Identity(name, incarnation(name), 1), AgentLimits(), 0)
    for offset, entry in enumerate(log):
        machine.read(offset, entry)
    machine.read_to_end(0)
    machine.leave("asked to")
    said = machine.entry(1)
    assert isinstance(said, goodbye)
    machine.appended()
    machine.read(machine.next_offset, said)
    assert machine.removed
    assert name not in machine.replica.agents
