"""Pipelines, as far as agents see them in their logs: their layouts, which are asked for, and changed by a coordinator once all
whom the change is about are there; and their ends, of which they are told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcontrol.core.cluster.model import Unit
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, LayoutRequest, Logged, NodeJoin
from kcontrol.requests.resizing import last_word
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.cluster.schedule import ClusterSchedule
    from tests.simulation.cluster.world import ClusterWorld


TASK = "nodes"
"""Of jobs that can be resized."""
KEEP_NOTHING = ("orders", "waves")
"""Pipelines that begin anew with another number of nodes, where they follow the size of the cluster."""
ONLY_WHILE_RESIZED = "no layout is changed by agents while its job is given no other number of nodes"


class PipelineLayout:
    """Of one pipeline, over all lives of its job. nodes: how many there are; 0: nobody knows. runs: not while its job has
    ended. made: so many changes. told: of the newest request that was answered."""

    def __init__(self, job: str) -> None:
        self.nodes = self.made = 0
        self.runs = False
        self.told = ""
        self._offset = 0
        self._see(PipelineView.empty(job))

    def _see(self, view: PipelineView) -> None:
        """What is asked of a view is asked once."""
        self._view = view
        self._asked: LayoutRequest | None = view.layout_request()
        desired = view.desired()
        self._is_stopped = desired is not None and desired.mode is DesiredMode.STOPPED

    @property
    def view(self) -> PipelineView:
        """What a reader of its control log knows."""
        return self._view

    def say(self, record: LayoutRequest | Desired) -> None:
        """One more in its control log."""
        self._offset += 1
        self._see(evolve(self._view, Logged(self._offset, 0, record)))

    def join(self, unit: Unit, pid: int, placement: AgentPlacement) -> None:
        """A process of it is there. A second task's nodes have other numbers."""
        node = unit[2] if unit[1] == TASK else 1_000 + unit[2]
        self._offset += 1
        join = NodeJoin(self._view.pipeline, node, str(pid), "sim", pid, placement=placement)
        self._see(evolve(self._view, Logged(self._offset, 0, join)))

    def ends(self, founded_ms: int, generation: int, joined: bool) -> bool:
        """Whether a process of it ends with its job: by its coordinator's command, or because it reads it before it joins.
        founded_ms, generation: of its placement."""
        if joined:
            return self._is_stopped
        ended = self._view.ended
        return ended is not None and AgentPlacement(founded_ms, generation) < ended

    def begin(self, nodes: int) -> None:
        """Its processes begin anew, or end, by none of the changes that were asked for: they are answered, or come too late by
        their number."""
        asked = self._asked
        self.told = self.told if asked is None else asked.request_id
        self.nodes, self.made, self.runs = nodes, self.made + 1, nodes > 0

    def end(self, stays: bool) -> None:
        """With its job. stays: the layout is what it was, and what was asked for may still count, once it runs again."""
        if stays:
            self.runs = False
        else:
            self.begin(0)

    def under_way(self) -> LayoutRequest | None:
        """The newest request that counts, unless it was answered."""
        asked = self._asked
        return None if asked is None or asked.request_id == self.told else asked

    def look(self, one: Resizing) -> tuple[int | None, LayoutRequest | None]:
        """As `layout_seen`: how many nodes there are, if no change is under way, and what is to be asked for."""
        wish = AgentPlacement(one.founded_ms, one.wish)
        if self._view.wish is not None and last_word(wish) < self._view.wish:
            return None, None
        asked, is_said = self.under_way(), self._view.wish == last_word(wish)
        if asked is not None:
            return None, None if is_said or asked.nodes in (0, one.nodes) else self._request(wish, 0)
        if is_said:
            return self.nodes, None
        is_newest = self._view.wish == wish
        if self.nodes == one.nodes:
            return (self.nodes, self._last(wish)) if is_newest else (None, self._request(wish, 0))
        return self.nodes if is_newest else None, self._request(wish, one.nodes)

    def _last(self, wish: AgentPlacement) -> LayoutRequest | None:
        """What was answered, once more: by its id it is answered again."""
        newest = self._view.user_layout_request()
        return None if newest is None else replace(newest, wish=last_word(wish))

    def _request(self, wish: AgentPlacement, nodes: int) -> LayoutRequest:
        name = f"{wish.generation}-{nodes}-{self._offset}"
        return LayoutRequest(self._view.pipeline, name, self.made + 1, nodes, 0, wish=wish)


def asks_for_nothing(one: Resizing, request: LayoutRequest | None) -> bool:
    """Whether it is the last request for an entry, before it is said how many nodes there are."""
    return request is not None and request.wish == last_word(AgentPlacement(one.founded_ms, one.wish))


def change_layouts(s: ClusterSchedule) -> None:
    """What coordinators do in a while."""
    for job, layout in sorted(s.world.layouts.items()):
        asked = layout.under_way() if layout.nodes else None
        if asked is None or s.resizing.random() >= 0.3:
            continue
        if asked.nodes == 0 or asked.number != layout.made + 1 or s.resizing.random() < 0.1:
            layout.told = asked.request_id
        elif can_be_made(s, job, asked):
            value = s.world.truth.jobs.get(job)
            wanted = value is None or not value.active or value.kept > 0 or asked.nodes == value.nodes
            require(wanted, ONLY_WHILE_RESIZED, (value, asked))
            layout.nodes, layout.made, layout.told = asked.nodes, layout.made + 1, asked.request_id
            s.world.counts["layout changed"] += 1


def running_layouts(world: ClusterWorld) -> dict[str, PipelineLayout]:
    """Of jobs that are active and can be resized."""
    return {job: layout for job, layout in world.layouts.items() if layout.runs}


def can_be_made(s: ClusterSchedule, job: str, asked: LayoutRequest) -> bool:
    """Whether all whom the change is about are there, be it that their job has ended just now."""
    most = max(asked.nodes, s.world.layouts[job].nodes)
    return all(_is_there(s, (job, TASK, index)) for index in range(most))


def _is_there(s: ClusterSchedule, unit: Unit) -> bool:
    life = s.world.rightful.get(unit)
    return life is not None and any(life.pid in host.processes for host in s.hosts)
