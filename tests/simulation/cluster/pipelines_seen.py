"""What an agent's shell does about the pipelines of its jobs, by what their logs say: whether they are done, have as many nodes
as are wanted, can have more, and know that their jobs have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.cluster.end_wards import EndedJob, ended_jobs
from kcontrol.core.cluster.fitting import fitting
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import AgentPlacement, Desired, LayoutRequest
from kcontrol.requests.endings import end_seen
from tests.simulation.cluster.layouts import KEEP_NOTHING, PipelineLayout, asks_for_nothing
from tests.simulation.cluster.same_values import SharingMachine

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld


class PipelinesSeen:
    """Of one process of an agent."""

    def __init__(self, world: ClusterWorld, machine: SharingMachine) -> None:
        self.world, self.machine = world, machine
        self.ends: list[tuple[str, Desired]] = []
        self.looks: list[tuple[Resizing, int | None, LayoutRequest | None]] = []
        self._told: dict[EndedJob, tuple[PipelineLayout, PipelineView]] = {}
        """What the logs of ended jobs' pipelines held when nothing was to be said of them."""
        self._looked: tuple[object, ...] = ()
        """By what it has last found nothing to do."""

    def look_after(self) -> None:
        """What the logs of pipelines say of the tasks that are this agent's to look after. Where nothing was to be done, and
        nothing that it looks at has changed, nothing is."""
        if self._has_looked():
            return
        done = [ward for ward in self.machine.wards() if ward in self.world.done]
        for ward in done:
            self.machine.task_done(ward)
        self.see_layouts()
        self.see_fits()
        self.tell_ends()
        value, me = self.machine.replica, self.machine.me
        waits = (
            done
            or self.looks
            or self.ends
            or fitting(value)
            or not self._told.keys() >= {*ended_jobs(value, me)}
        )
        self._looked = () if waits else (value, me, len(self.world.done))

    def _has_looked(self) -> bool:
        looked, machine = self._looked, self.machine
        return (
            bool(looked)
            and looked[0] is machine.replica
            and looked[1] is machine.me
            and looked[2] == len(self.world.done)
            and all(layout.view is view for layout, view in self._told.values())
        )

    def asks(self) -> list[str]:
        """Jobs of whose pipelines it is about to ask for another layout."""
        return [
            one.job
            for one, _, request in self.looks
            if request is not None and not asks_for_nothing(one, request)
        ]

    def see_layouts(self) -> None:
        """What it has seen it may say late, and what it was about to ask for it may ask late."""
        resizings = self.machine.resizings()
        if not self.looks and not resizings:
            return
        seen, self.looks = self.looks, []
        for one, nodes, request in seen:
            if request is not None:
                self.world.layouts[one.job].say(request)
            if nodes is not None:
                self.machine.resized(one, nodes)
        for one in resizings:
            layout = self.world.layouts.get(one.job)
            if layout is not None and layout.runs:
                found, asks = layout.look(one)
                if not self.machine.may_start(self.world.now_ms):
                    found, asks = (None if asks_for_nothing(one, asks) else found), None
                self.looks.append((one, found, asks))

    def see_fits(self) -> None:
        """Pipelines can have as many nodes as there is room for."""
        for one in self.machine.fittings(self.world.now_ms):
            layout = self.world.layouts.get(one.job)
            if layout is not None and layout.runs:
                self.machine.fitted(one, one.nodes, one.job in KEEP_NOTHING)

    def tell_ends(self) -> None:
        """Have pipelines stopped whose jobs have ended. What it was about to say it may say late."""
        about, self.ends = self.ends, []
        for job, request in about:
            self.world.layouts[job].say(request)
            self.world.counts["pipeline told that its job has ended"] += 1
        ended = ended_jobs(self.machine.replica, self.machine.me)
        if not ended and not self._told:
            return
        self._told = {one: told for one, told in self._told.items() if one in ended}
        if not self.machine.may_start(self.world.now_ms):
            return
        for one in ended:
            layout = self.world.layouts[one.job]
            told = self._told.pop(one, None)
            if told is None or told[1] is not layout.view:
                seen = end_seen(layout.view, AgentPlacement(one.founded_ms, one.wish))
                if seen.request is not None:
                    self.ends.append((one.job, seen.request))
                    continue
            self._told[one] = layout, layout.view
