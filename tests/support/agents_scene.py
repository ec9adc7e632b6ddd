"""A cluster of agents for whoever looks on: three hosts, one of them drained, one where no coordinator can run, a pipeline that
runs, one that waits for a tag, and one that has failed."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.entries import ClusterEntry, DrainAgent, SubmitJob, TaskFailed
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import COORDINATOR, COORDINATOR_LEVEL, Place, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply
from kcontrol.views.agents_facts import ClusterSeen, LoggedEntry
from tests.unit.core.cluster.made import incarnation, joined

NAMES = ("host-1", "host-2", "host-3")


def submit(value: Replica, job: str, nodes: int, tags: tuple[str, ...] = ()) -> SubmitJob:
    task = TaskSpec("nodes", nodes, nodes, tags)
    return SubmitJob(job, f"{job}-1", value.offset, f"file:{job}.py", (task,))


def hosts() -> ClusterSeen:
    """As of the last of some entries."""
    value = replace(joined(NAMES, slots=4, tags=("ssd",)), level=COORDINATOR_LEVEL)
    entries: list[LoggedEntry] = []

    def say(entry: ClusterEntry) -> None:
        nonlocal value
        before, offset = value, value.offset + 1
        value, why = apply(before, offset, entry)
        entries.append(LoggedEntry(offset, 1_700_000_000_000, type(entry).__name__, why, diff(before, value)))

    for job, nodes, tags in (("clicks", 3, ()), ("daily-rollup", 1, ()), ("fraud-alerts", 2, ("gpu",))):
        say(submit(value, job, nodes, tags))
    place = value.places()["daily-rollup", "nodes", 0]
    say(_failed(place))
    say(_not_kept(value.coordinators[0]))
    say(DrainAgent("host-3", True, value.offset))
    beats = [Beat(name, incarnation(name), 3, False, value.offset - 9 * at) for at, name in enumerate(NAMES)]
    return ClusterSeen(value, beats, entries)


def _not_kept(place: Place) -> TaskFailed:
    why = "ended with code 2: /var/lib/kcontrol can't be written"
    return TaskFailed(*COORDINATOR, place.generation, place.agent, incarnation(place.agent), why)


def _failed(place: Place) -> TaskFailed:
    why = "ended with code 2: flights.py: there is no column `origin`"
    who = (place.agent, incarnation(place.agent))
    return TaskFailed("daily-rollup", "nodes", 0, place.generation, *who, why, useless=True)
