"""The worked examples of allocation, number by number: those of Onyx's design documents and of its tests."""

from __future__ import annotations

from typing import Any

import pytest

from kcontrol.core.cluster.entries import CompleteTask, Configure, KillJob, Leave, SubmitJob
from kcontrol.core.cluster.model import EMPTY, ClusterPolicy, Replica, Scheduler, TaskSpec
from kcontrol.core.cluster.replica import apply
from tests.unit.core.cluster.made import EXAMPLES, after, agents_of, incarnation, joined

ALLOCATION = EXAMPLES["allocation"]


def tasks_of(case: dict[str, Any], step: dict[str, Any]) -> tuple[TaskSpec, ...]:
    found = []
    for number, text in enumerate(step["tasks"]):
        name, _, percentage = text.partition(":")
        least = step["mins"][number] if "mins" in step else case["min"]
        most = step["maxs"][number] if "maxs" in step else case.get("max")
        found.append(TaskSpec(name, least, most, (), int(percentage or 0)))
    return tuple(found)


def play(replica: Replica, case: dict[str, Any], step: dict[str, Any]) -> Replica:
    at = replica.offset
    if "submit" in step:
        what = (step["submit"], f"request-{at}", at, "package", tasks_of(case, step))
        return after(replica, SubmitJob(*what, Scheduler(step["kind"]), step["percentage"]))
    if "complete" in step:
        job, task = step["complete"].split()
        return after(replica, CompleteTask(job, replica.jobs[job].revision, task))
    if "kill" in step:
        return after(replica, KillJob(step["kill"], f"request-{at}", at))
    if "leave" in step:
        who = (replica.members[-1], incarnation(replica.members[-1]))
        return after(replica, Leave(*who, *who))
    return joined(
        step["join"] if "join" in step else [f"q{n:03}" for n in range(step["join_count"])], replica
    )


def shown(replica: Replica, step: dict[str, Any]) -> dict[str, dict[str, int | str]]:
    """Who runs each task, or how many do, as the example says it."""
    found: dict[str, dict[str, int | str]] = {}
    for job, tasks in replica.allocations.items():
        if job in step.get("starved", []):
            continue
        for task, places in tasks.items():
            assert all(places)
            as_number = isinstance(step["then"].get(job, {}).get(task), int)
            agents = "".join(place.agent for place in places if place is not None)
            found.setdefault(job, {})[task] = len(places) if as_number else agents
    return found


@pytest.mark.parametrize("name", ALLOCATION)
def test_a_worked_example_of_allocation(name: str) -> None:
    case = ALLOCATION[name]
    policy = ClusterPolicy(scheduler=Scheduler(case["scheduler"]), coordinators=1)
    replica = apply(EMPTY, 0, Configure(policy))[0]
    names = list(case["agents"]) if "agents" in case else [f"p{number:03}" for number in range(case["count"])]
    replica = joined(names, replica)
    for step in case["steps"]:
        before = agents_of(replica)
        replica = play(replica, case, step)
        assert shown(replica, step) == step["then"]
        now = agents_of(replica)
        moved = [unit for unit, agent in before.items() if now.get(unit, agent) != agent]
        moved = [unit for unit in moved if before[unit] in replica.members]
        assert len(moved) <= step.get("moved", step.get("moved_at_most", len(moved)))
        for job, state in step.get("state", {}).items():
            assert replica.jobs[job].state == state
