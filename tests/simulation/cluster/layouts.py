"""The layouts of pipelines, as far as agents see them in their logs: asked for, and changed by a coordinator once all whom
the change is about are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.cluster.model import Unit
from kcontrol.core.cluster.resize_wards import Resizing

if TYPE_CHECKING:
    from tests.simulation.cluster.schedule import ClusterSchedule
    from tests.simulation.cluster.world import ClusterWorld


def look_at_layout(world: ClusterWorld, one: Resizing) -> int | None:
    """How many nodes the pipeline has, if no change is under way; ask for one if it is to have another number."""
    if one.job not in world.layouts:
        return None
    asked = world.layouts_asked.get(one.job)
    if asked is not None:
        if asked != one.nodes:
            del world.layouts_asked[one.job]  # It is withdrawn.
        return None
    if world.layouts[one.job] != one.nodes:
        world.layouts_asked[one.job] = one.nodes
    return world.layouts[one.job]


def change_layouts(s: ClusterSchedule) -> None:
    """What coordinators do in a while."""
    world = s.world
    for job, nodes in sorted(world.layouts_asked.items()):
        task = world.truth.jobs[job].tasks[0].name
        units = [(job, task, index) for index in range(max(nodes, world.layouts[job]))]
        if s.resizing.random() < 0.3 and all(_is_there(s, unit) for unit in units):
            world.layouts[job] = nodes
            del world.layouts_asked[job]
            world.counts["layout changed"] += 1


def _is_there(s: ClusterSchedule, unit: Unit) -> bool:
    life = s.world.rightful.get(unit)
    return life is not None and any(life.pid in host.processes for host in s.hosts)
