"""The rules by which a job is given another number of nodes, each as it is switched off."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from kcontrol.core.cluster import jobs, resizing
from kcontrol.core.cluster import replica as replica_module
from kcontrol.core.cluster.change import Change
from kcontrol.core.cluster.entries import ResizeJob
from kcontrol.core.cluster.model import ClusterJob, TaskSpec
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import LayoutRequest
from tests.simulation.breaking import Patches
from tests.simulation.cluster import faults
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.layouts import ONLY_WHILE_RESIZED, PipelineLayout, asks_for_nothing
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
        jobs.place_anew(change, job)

    right = resizing.on_resize
    return (patch.dict(replica_module.HANDLERS, {ResizeJob: on_resize}),)


def _jobs_are_resized_at_any_level() -> Patches:
    return (patch.object(resizing, "RESIZE_LEVEL", 1),)


def _what_an_older_wish_asks_for_counts() -> Patches:
    def newest(self: PipelineView) -> LayoutRequest | None:
        found = [one for one in self.latest.values() if isinstance(one.record, LayoutRequest)]
        last = max(found, key=lambda one: one.offset, default=None)
        return last.record if last is not None and isinstance(last.record, LayoutRequest) else None

    return (patch.object(PipelineView, "user_layout_request", newest),)


def _where_nothing_is_to_be_done_nothing_is_asked_for() -> Patches:
    def look(self: PipelineLayout, one: Resizing) -> tuple[int | None, LayoutRequest | None]:
        nothing_to_do = self.under_way() is None and self.nodes == one.nodes
        return (self.nodes, None) if nothing_to_do else right(self, one)

    right = PipelineLayout.look
    return (patch.object(PipelineLayout, "look", look),)


def _what_an_entry_asks_for_counts_once_it_is_carried_out() -> Patches:
    def look(self: PipelineLayout, one: Resizing) -> tuple[int | None, LayoutRequest | None]:
        nodes, request = right(self, one)
        return nodes, None if asks_for_nothing(one, request) else request

    right = PipelineLayout.look
    return (patch.object(PipelineLayout, "look", look),)


def _who_is_submitted_again_is_not_resized() -> Patches:
    def resumed(known: ClusterJob | None, job: ClusterJob) -> ClusterJob:
        return job if known is not None and not known.active else right(known, job)

    right = jobs._resumed
    return (patch.object(jobs, "_resumed", resumed),)


RULES_OF_RESIZING = (
    ClusterRule(_nodes_go_before_the_layout_is_without_them, (inv.KEEPS_LAYOUT,), begin=1, resizes=True),
    ClusterRule(_what_is_taken_back_has_never_come_about, (inv.KEEPS_LAYOUT,), begin=17, resizes=True),
    ClusterRule(_another_number_is_another_revision, (inv.STAYING_GO_ON,), begin=2, resizes=True),
    ClusterRule(
        _jobs_are_resized_at_any_level,
        (inv.SAME_VALUE, inv.DIGESTS_AGREE),
        begin=1,
        two_codes=True,
        resizes=True,
    ),
    ClusterRule(
        _what_an_older_wish_asks_for_counts,
        (ONLY_WHILE_RESIZED, inv.COMES_TO_REST, inv.KEEPS_LAYOUT),
        (faults.asker_frozen,),
        begin=138,
        resizes=True,
    ),
    ClusterRule(
        _where_nothing_is_to_be_done_nothing_is_asked_for,
        (ONLY_WHILE_RESIZED, inv.COMES_TO_REST, inv.KEEPS_LAYOUT),
        (faults.asker_frozen,),
        begin=279,
        resizes=True,
    ),
    ClusterRule(
        _what_an_entry_asks_for_counts_once_it_is_carried_out,
        (ONLY_WHILE_RESIZED,),
        (faults.warden_reads_late, faults.resized_job_begins_anew),
        begin=119,
        resizes=True,
    ),
    ClusterRule(
        _who_is_submitted_again_is_not_resized, (ONLY_WHILE_RESIZED,), begin=19, resizes=True, ends=True
    ),
)
