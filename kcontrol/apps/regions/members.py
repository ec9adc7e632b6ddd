"""The RegionMembers port on Kafka: pipelines, looked at through their logs and held by orders in them.

A pipeline knows nothing of regions. Its life is the offset of the newest claim or join in its control partition; it is at work
while its coordinator says that it runs; and it can be at a cut as soon as it stands at its limits, because a step that is
committed is saved.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from kcontrol.adapters.kafka.read.output_ends import OutputEnds
from kcontrol.apps.drain import DrainedStep, Draining
from kcontrol.apps.held_pipeline import LEASE_MS, HeldPipeline
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.apps.regions.going_back import RegionRollbacks
from kcontrol.core.model import HoldPhase, PipelinePhase, PipelineSpec, Status
from kcontrol.core.regions.graph import graph_of, refused_graph
from kcontrol.core.regions.model import DrainMode
from kcontrol.core.regions.records import (
    CutOffset,
    CutPipeline,
    RegionCut,
    RegionRequest,
    RegionRollback,
)
from kcontrol.errors import NotFoundError
from kcontrol.requests.record import NotNowError
from kcontrol.sessions.region_ports import MembersSeen
from kcontrol.settings.cluster import ClusterSettings

HEARD_WITHIN_S = 10.0
"""A coordinator says how its pipeline is every two seconds."""
HELD_LEASE_MS = 120_000
"""Of pipelines that stay at a cut: long enough for another controller to take them on."""
_AGAIN_S = 1.0
"""Between tries at a drain that somebody has crossed."""
_STAYS_S = 0.5
"""A drain is followed for so long in one go: most are over by then, and while one is under way a pipeline may stand."""


@dataclass
class _Member:
    """One pipeline. said_at: offset of its newest status. heard_s: when that was first seen; None: it may be an old one."""

    logs: PipelineLogs
    held: HeldPipeline | None = None
    said_at: int = -1
    heard_s: float | None = None
    looked: bool = False

    def hear(self, now_s: float) -> None:
        """After the control log was read on."""
        name = self.logs.pipeline
        logged = self.logs.view.latest.get(f"{name}/status")
        at = -1 if logged is None else logged.offset
        if at != self.said_at:
            self.said_at = at
            if self.looked:
                self.heard_s = now_s
        self.looked = True


class PipelineMembers:
    """Of one region."""

    def __init__(self, cluster: ClusterSettings, region: str) -> None:
        self._cluster, self._holder = cluster, f"region {region}"
        self._ends = OutputEnds.of(cluster)
        self._rollbacks = RegionRollbacks(cluster)
        self._stack = AsyncExitStack()
        self._members: dict[str, _Member] = {}
        self._names: tuple[str, ...] = ()
        self._draining: tuple[int, bool, Draining] | None = None
        self._again_s = 0.0
        self._waits: tuple[str, ...] = ()

    async def look(self, members: Sequence[str]) -> MembersSeen:
        """As the port says."""
        self._names = tuple(members)
        lives: dict[str, int] = {}
        unknown, ill, gone = [], [], []
        for name in members:
            try:
                member = await self._looked_at(name)
            except NotFoundError:
                gone.append(_deleted(name))
                continue
            view = member.logs.view
            life = max(view.epoch, *view.incarnations.values(), -1)
            if life >= 0:
                lives[name] = life
            doubt, wrong = _how(name, member, view.status())
            unknown += [doubt] if doubt else []
            ill += [wrong] if wrong else []
        starts: tuple[str, ...] = ()
        if not gone:
            graph = graph_of(self._specs().values())
            refused, starts = refused_graph(graph), graph.starts
            ill += [refused] if refused and not unknown else []
        healthy = False if gone or ill else None if unknown else True
        return MembersSeen(lives, healthy, (*gone, *ill, *unknown), starts)

    async def _looked_at(self, name: str) -> _Member:
        if name not in self._members:
            logs = await self._stack.enter_async_context(pipeline_logs(self._cluster, name))
            self._members[name] = _Member(logs)
        member = self._members[name]
        await member.logs.read_control()
        member.hear(time.monotonic())
        return member

    def _specs(self) -> dict[str, PipelineSpec]:
        return {name: self._members[name].logs.spec() for name in self._names}

    # --- a drain --------------------------------------------------------------------------------------------

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        """As the port says. What somebody has crossed is begun again: only the region's alarm ends that."""
        if time.monotonic() < self._again_s:
            return None
        try:
            if self._draining is None or self._draining[:2] != (number, stays):
                self._draining = number, stays, await self._begun(number, stays)
            draining = self._draining[2]
            if not await draining.go_on_for(_STAYS_S):
                self._waits = draining.late()
                return None
            if not stays:
                # Not only after the cut has been written down: nobody needs them where they are any more.
                await draining.let_go()
            found = await draining.checked()
        except (NotNowError, NotFoundError) as error:
            self._draining, self._again_s = None, time.monotonic() + _AGAIN_S
            self._waits = (str(error),)
            await self._release_own()
            return None
        self._draining, self._waits = None, ()
        return tuple(map(_cut_pipeline, found))

    async def _begun(self, number: int, stays: bool) -> Draining:
        specs = self._specs()
        held = {name: self._held(name, specs[name], number, stays) for name in self._names}
        for one in held.values():
            await one.begin()
        for name, one in held.items():
            self._members[name].held = one
        return Draining(
            graph_of(specs.values()), held, number, DrainMode.STOPPED if stays else DrainMode.ALIGNED
        )

    def _held(self, name: str, spec: PipelineSpec, number: int, stays: bool) -> HeldPipeline:
        lease_ms = HELD_LEASE_MS if stays else LEASE_MS
        logs = self._members[name].logs
        return HeldPipeline(spec, logs, self._ends, self._holder, lease_ms, number, resumes=True)

    async def _release_own(self) -> None:
        for name in self._names:
            held = self._members[name].held
            if held is not None:
                await held.release()

    # --- held, and let go -----------------------------------------------------------------------------------

    async def hold(self, number: int) -> dict[str, int]:
        """As the port says. Where a pipeline stands already, it stays; whoever takes over lets none make another step."""
        stand: dict[str, int] = {}
        self._waits = ()
        for name in self._there():
            member = self._members[name]
            if member.held is None:
                member.held = self._held(name, member.logs.spec(), number, stays=True)
            try:
                await member.held.hold(member.held.limits or ())
                told = await member.held.said()
            except NotNowError as error:
                member.held = None
                self._waits += (str(error),)
                continue
            if told is not None and told[0] is HoldPhase.HELD:
                stand[name] = told[1]
        return stand

    async def release(self, number: int) -> frozenset[str]:
        """As the port says."""
        free, self._draining, self._waits = set(), None, ()
        for name in self._there():
            member = self._members[name]
            if member.held is None:
                member.held = self._held(name, member.logs.spec(), number, stays=False)
            if await member.held.release_any():
                free.add(name)
            else:
                newest = member.logs.view.hold()
                by = "somebody" if newest is None else newest[1].holder
                self._waits += (f"{name} (held by {by}, or its coordinator has not said that it is not)",)
        return frozenset(free)

    def _there(self) -> list[str]:
        """Those that were submitted."""
        found = [name for name in self._names if name in self._members]
        return [name for name in found if self._members[name].logs.view.spec() is not None]

    # --- taken back -----------------------------------------------------------------------------------------

    async def refuses(self, cut: RegionCut, request: RegionRequest) -> str | None:
        """As the port says."""
        return await self._rollbacks.refuses(cut, request)

    async def take_back(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        """As the port says."""
        back = await self._rollbacks.take_back(cut, rollback)
        self._waits = self._rollbacks.waits_for
        return back

    async def give_up(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        """As the port says."""
        return await self._rollbacks.give_up(cut, rollback)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """As the port says."""
        return self._waits

    def let_go(self) -> None:
        """As the port says."""
        self._draining, self._waits = None, ()
        self._rollbacks.let_go()
        for member in self._members.values():
            member.held = None

    async def close(self) -> None:
        await self._stack.aclose()
        await self._ends.close()


def _deleted(name: str) -> str:
    """Of a pipeline without a definition: a region is defined of pipelines that have one."""
    return f"{name}: it was deleted: submit it again, or define the region without it (kcontrol region apply)"


def _how(name: str, member: _Member, said: Status | None) -> tuple[str, str]:
    """Why it is not known how it is, or ''; what is wrong with it, or ''."""
    if said is None:
        return f"{name}: nobody is in charge of it", ""
    if member.heard_s is None:
        return f"{name}: its coordinator was not heard yet", ""
    if time.monotonic() - member.heard_s > HEARD_WITHIN_S:
        return "", f"{name}: its coordinator was not heard for {HEARD_WITHIN_S:g} s"
    if said.phase is not PipelinePhase.RUNNING:
        return "", f"{name}: {said.phase}{': ' + said.reason if said.reason else ''}"
    if not said.step:
        return f"{name}: it has committed no step yet", ""
    return "", ""


def _cut_pipeline(one: DrainedStep) -> CutPipeline:
    def offsets(places: dict[tuple[str, int], int]) -> tuple[CutOffset, ...]:
        return tuple(CutOffset(topic, partition, at) for (topic, partition), at in sorted(places.items()))

    return CutPipeline(
        one.pipeline, one.cut.step, offsets(dict(one.cut.positions)), offsets(dict(one.cut.ends))
    )
