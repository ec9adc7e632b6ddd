"""The rules by which a job is given another number of nodes, each as it is switched off."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from kcontrol.core.cluster import jobs, resizing
from kcontrol.core.cluster import replica as replica_module
from kcontrol.core.cluster.change import Change
from kcontrol.core.cluster.entries import ResizeJob
from kcontrol.core.cluster.model import ClusterJob, TaskSpec
from tests.simulation.breaking import Patches
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.rule import ClusterRule


def _nodes_go_before_the_layout_is_without_them() -> Patches:
    def open_tasks(self: ClusterJob) -> tuple[TaskSpec, ...]:
        return tuple(task for task in self.tasks if task.name not in self.done)

    return (patch.object(ClusterJob, "open_tasks", property(open_tasks)),)


def _what_is_taken_back_has_never_come_about() -> Patches:
    def on_resize(change: Change, entry: ResizeJob) -> None:
        right(change, entry)
        job = change.replica.jobs[entry.job]
        if job.kept:
            change.put_job(replace(job, most=max(job.kept, job.nodes)))

    right = resizing.on_resize
    return (patch.dict(replica_module.HANDLERS, {ResizeJob: on_resize}),)


def _another_number_is_another_revision() -> Patches:
    def on_resize(change: Change, entry: ResizeJob) -> None:
        right(change, entry)
        job = replace(change.replica.jobs[entry.job], revision=change.offset)
        change.put_job(job)
        jobs._place_anew(change, job)

    right = resizing.on_resize
    return (patch.dict(replica_module.HANDLERS, {ResizeJob: on_resize}),)


def _jobs_are_resized_at_any_level() -> Patches:
    return (patch.object(resizing, "RESIZE_LEVEL", 1),)


RULES_OF_RESIZING = (
    ClusterRule(_nodes_go_before_the_layout_is_without_them, (inv.KEEPS_LAYOUT,), begin=1, resizes=True),
    ClusterRule(_what_is_taken_back_has_never_come_about, (inv.KEEPS_LAYOUT,), begin=1, resizes=True),
    ClusterRule(_another_number_is_another_revision, (inv.STAYING_GO_ON,), begin=2, resizes=True),
    ClusterRule(
        _jobs_are_resized_at_any_level,
        (inv.SAME_VALUE, inv.DIGESTS_AGREE),
        begin=1,
        two_codes=True,
        resizes=True,
    ),
)
