"""The rules by which what is done is said to be done, each as it is switched off."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from kcontrol.core.cluster import jobs, wards
from kcontrol.core.cluster import replica as replica_module
from kcontrol.core.cluster.change import Change
from kcontrol.core.cluster.entries import CompleteTask
from kcontrol.core.cluster.model import Replica
from tests.simulation.breaking import Patches
from tests.simulation.cluster import faults
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.hosts import HostAgent
from tests.simulation.cluster.rule import ClusterRule


def _what_was_done_for_an_earlier_revision_counts() -> Patches:
    def on_complete(change: Change, entry: CompleteTask) -> None:
        known = change.replica.jobs.get(entry.job)
        right(change, entry if known is None else replace(entry, revision=known.revision))

    right = jobs.on_complete
    return (patch.dict(replica_module.HANDLERS, {CompleteTask: on_complete}),)


def _what_has_no_place_has_no_warden() -> Patches:
    def warden(value: Replica, job: str, task: str) -> str:
        placed = any(value.allocations.get(job, {}).get(task, ()))
        return right(value, job, task) if placed else ""

    right = wards.warden
    return (patch.object(wards, "warden", warden),)


def _what_is_done_is_seen_once() -> Patches:
    """By whoever is the warden when it is, and not again."""

    def look_after(self: HostAgent) -> None:
        seen = self.world.__dict__.setdefault("seen", set())
        for ward in set(self.machine.wards()) & self.world.done - seen:
            seen.add(ward)
            self.machine.task_done(ward)

    return (patch.object(HostAgent, "look_after", look_after),)


RULES_OF_COMPLETION = (
    ClusterRule(
        _what_was_done_for_an_earlier_revision_counts,
        (inv.COMPLETED_WHEN_DONE,),
        (faults.input_ended, faults.entry_arrives_twice),
        begin=114,
    ),
    ClusterRule(
        _what_has_no_place_has_no_warden,
        (inv.COMES_TO_REST,),
        (faults.input_ended, faults.several_hosts_killed),
        begin=97,
    ),
    ClusterRule(
        _what_is_done_is_seen_once,
        (inv.COMES_TO_REST,),
        (faults.input_ended, faults.agent_killed),
        begin=36,
    ),
)
