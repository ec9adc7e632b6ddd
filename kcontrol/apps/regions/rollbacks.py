"""Rollbacks of regions as servers and the operator are asked for them: planned here, carried out by a region's controller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kcontrol.apps.regions.asking import abandon_request, plan_region_rollback, region_reader, request_of
from kcontrol.apps.regions.going_back import BackPlan
from kcontrol.core.regions.records import RegionRequestKind
from kcontrol.requests.region_rollbacks import (
    AbandonOrder,
    BackFacts,
    RollbackFacts,
    RollbackOrder,
    Rollbacks,
)
from kcontrol.settings.cluster import ClusterSettings


def rollbacks_of(cluster: ClusterSettings, own: Path) -> Rollbacks:
    """Plans and asks, of a cluster's regions. own: as in `plan_reset`."""

    async def roll_back(order: RollbackOrder | AbandonOrder) -> RollbackFacts:
        if isinstance(order, AbandonOrder):
            return await _given_up(cluster, order)
        plans, as_of = await plan_region_rollback(
            cluster, order.region, order.to_cut, order.leave_behind, own, order.as_of
        )
        asked = ""
        if not order.only_plan:
            request = request_of(order.region, RegionRequestKind.ROLLBACK, order.by)
            asked = order.request_id or request.request_id
            async with region_reader(cluster, order.region) as reader:
                await reader.asked.ask(
                    replace(
                        request,
                        request_id=asked,
                        to_cut=order.to_cut,
                        why=order.why,
                        leave_behind=order.leave_behind,
                        as_of=as_of,
                    )
                )
        return RollbackFacts(order.region, order.to_cut, as_of, asked, tuple(map(back_facts, plans)))

    return roll_back


async def _given_up(cluster: ClusterSettings, order: AbandonOrder) -> RollbackFacts:
    async with region_reader(cluster, order.region) as reader:
        view = await reader.look()
        request = abandon_request(order.region, view, order.to_cut, order.as_of, order.by, order.why)
        asked = order.request_id or request.request_id
        await reader.asked.ask(replace(request, request_id=asked))
    return RollbackFacts(order.region, order.to_cut, request.as_of, asked, ())


def back_facts(plan: BackPlan) -> BackFacts:
    """What people are told of one pipeline."""
    reset = plan.reset
    return BackFacts(
        pipeline=plan.pipeline,
        to_step=plan.to_step,
        void_to=plan.to_step if reset is None else reset.last.step,
        void_records={} if reset is None else dict(reset.written),
        rerun_steps=0 if reset is None else reset.rerun,
        left_behind=() if reset is None else tuple(one.name for one in reset.readers),
        unseen=() if reset is None else reset.unseen,
    )
