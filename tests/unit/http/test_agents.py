"""`/v1/cluster` and its metrics: what the value says, of a server that is told of one."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any, cast

import httpx
from prometheus_client import CollectorRegistry

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.metrics.agents import register_cluster
from kcontrol.apps.agent.looking import logged
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.differing import DifferingValue
from kcontrol.core.cluster.entries import Drain, SubmitJob, TaskFailed
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy, TaskSpec
from kcontrol.core.cluster.replica import apply
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import ClusterSeen, LoggedEntry
from kcontrol.views.cluster_projection import NotReadyError
from kcontrol.wire.cluster import StampedEntry
from tests.support.shared_api import api_of
from tests.unit.core.cluster.made import after, joined


def submit(job: str, nodes: int, tags: tuple[str, ...] = ()) -> SubmitJob:
    return SubmitJob(job, f"{job}-1", 0, f"file:{job}.py", (TaskSpec("nodes", nodes, nodes, tags),))


def seen() -> ClusterSeen:
    """Agents a and b of two slots, b drained; one job runs, one waits for a tag that nobody has."""
    value = after(
        joined("ab", slots=2), submit("flights", 2), Drain("b", True), submit("orders", 1, ("gpu",))
    )
    entries = [LoggedEntry(at, 7, "Drain", "", (f"change {at}",)) for at in range(3)]
    differing = {"a": DifferingValue(3, ("b",))}
    return ClusterSeen(value, (Beat("a", "a-1", 0, False, value.offset - 2),), entries, differing=differing)


def get(path: str, found: ClusterSeen | None) -> Any:
    def agents() -> ClusterSeen:
        if found is None:
            raise NotReadyError("not read")
        return found

    async def ask() -> httpx.Response:
        nobody = ClusterSettings(bootstrap_servers="127.0.0.1:1")
        plane = Plane(nobody, cast(Any, None), SystemClock(), CollectorRegistry(), agents=agents)
        transport = httpx.ASGITransport(api_of(plane))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path)

    answer = asyncio.run(ask())
    return answer.json() if answer.status_code == 200 else answer.status_code


def test_the_cluster_is_told_as_of_an_offset_of_its_log() -> None:
    offset = seen().replica.offset
    assert get("/v1/cluster", seen()) == {
        **{"as_of": offset, "level": 1, "scheduler": "balanced", "members": 2},
        **{"slots": 2, "used": 2, "snapshot": -1, "policy": asdict(ClusterPolicy())},
    }
    a, b = get("/v1/cluster/agents", seen())["agents"]
    assert (a["stage"], a["slots"], a["used"], a["behind"], a["watches"]) == ("member", 2, 2, 2, "b")
    assert (b["used"], b["draining"], b["behind"]) == (0, True, None)
    assert (a["differs_from"], b["differs_from"]) == (["b"], [])
    flights, orders = get("/v1/cluster/jobs", seen())["jobs"]
    assert flights["places"] == {"nodes/0": "a", "nodes/1": "a"}
    assert not flights["waits"]
    assert "with tags gpu; there are 0" in orders["waits"]
    log = get("/v1/cluster/log?limit=2", seen())
    assert [entry["changes"] for entry in log["entries"]] == [["change 1"], ["change 2"]]


def test_why_a_node_could_not_run_is_told_while_its_job_waits() -> None:
    """The value only holds where it could not run; why is in the log."""
    value, entries = after(joined("a"), submit("flights", 1)), []
    generation = value.offset
    for offset, why in ((generation + 1, "no such library"), (generation + 2, "it is said late")):
        entry = TaskFailed("flights", "nodes", 0, generation, "a", "a-1", why)
        before = value
        value, rejection = apply(before, offset, entry)
        entries.append(logged(StampedEntry(offset, entry, 7), entry, rejection, diff(before, value)))
    assert [bool(one.rejection) for one in entries] == [False, True]
    [flights] = get("/v1/cluster/jobs", ClusterSeen(value, (), entries))["jobs"]
    assert flights["waits"] == (
        "node 0 could not run on a, and no other host fits: kcontrol cluster retry flights tries again, once it is put right "
        "there; no such library"
    )
    first, *_ = get("/v1/cluster/log", ClusterSeen(value, (), entries))["entries"]
    assert first["changes"][0] == "flights/nodes/0 can't run on a: no such library"
    again = after(value, replace(submit("flights", 1), as_of=value.offset, package="file:another.py"))
    [flights] = get("/v1/cluster/jobs", ClusterSeen(again, (), entries))["jobs"]
    assert flights["waits"] == "", "what was said of an earlier one says nothing"


def test_without_agents_there_is_nothing_and_before_the_log_was_read_no_answer() -> None:
    assert get("/v1/cluster", ClusterSeen())["members"] == 0
    assert get("/v1/cluster/jobs", ClusterSeen()) == {"as_of": -1, "jobs": []}
    assert get("/v1/cluster", None) == 503
    assert get("/v1/cluster/log?limit=0", seen()) == 422


def test_metrics_are_those_of_the_value() -> None:
    registry = CollectorRegistry()
    register_cluster(registry, seen)
    told = registry.get_sample_value
    assert told("kcontrol_cluster_members") == 2
    assert (told("kcontrol_cluster_slots"), told("kcontrol_cluster_slots_used")) == (2, 2)
    assert told("kcontrol_cluster_jobs", {"state": "active"}) == 2
    assert told("kcontrol_cluster_job_waits", {"pipeline": "flights"}) == 0
    assert told("kcontrol_cluster_job_waits", {"pipeline": "orders"}) == 1
    assert told("kcontrol_cluster_agent_behind_entries", {"agent": "a"}) == 2
    assert told("kcontrol_cluster_agent_behind_entries", {"agent": "b"}) is None
    assert [told("kcontrol_cluster_agent_differs", {"agent": agent}) for agent in "ab"] == [1, 0]
    quiet = CollectorRegistry()
    register_cluster(quiet, ClusterSeen)
    assert [sample for family in quiet.collect() for sample in family.samples] == []
