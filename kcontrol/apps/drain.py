"""Brings several pipelines to one moment: each is held, as a wave that goes down their graph, until its readers know where to
stop (core/regions/wave.py).

Nothing is kept here. Holds are leases: whoever drains and dies holds nobody for longer than one. What was found is held
against the logs of steps before it counts, so it does not matter who else has held a pipeline meanwhile, or let go of it.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from kcontrol.adapters.kafka.read.output_ends import OutputEnds
from kcontrol.apps.cuts import readers_first, specs_of
from kcontrol.apps.held_pipeline import LEASE_MS, HeldPipeline
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.model import HoldPhase, ReadLimit, StepBoundary
from kcontrol.core.regions.cut import PipelineCut, Place, in_flight, written_after
from kcontrol.core.regions.graph import RegionGraph, graph_of, refused_graph
from kcontrol.core.regions.model import DrainMode
from kcontrol.core.regions.wave import (
    DrainAnswer,
    DrainOrder,
    begin_drain,
    hear_answer,
    is_drained,
    waits_for,
)
from kcontrol.core.step.offsets import paused_inputs
from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings

_LOOK_EVERY_S = 0.005
"""Those who have an order and have not come to their cut are looked at so often: whoever they read from stands meanwhile."""


@dataclass(frozen=True, slots=True)
class DrainedStep:
    """One pipeline's part of a cut, in the order in which rows go through them. boundary: of its step.
    newest: the last step that its log held in the end. cut: with the end of what it had written, by partition of its
    outputs."""

    pipeline: str
    boundary: StepBoundary
    newest: int
    cut: PipelineCut


async def drain(
    cluster: ClusterSettings, pipelines: Sequence[str], timeout_s: float, *, lease_ms: int = LEASE_MS
) -> tuple[DrainedStep, ...]:
    """A cut, made now. lease_ms: for how long a pipeline stays held if this process dies.

    Raises NotFoundError: there is no such pipeline, or it has committed nothing. ConfigurationError: they can't be at one
    moment. NotNowError: one of them is held by somebody else. RetriableError: not all have come to it in time; none is held
    any more.
    """
    specs = await specs_of(cluster, pipelines)
    graph = graph_of(specs.values())
    refused = refused_graph(graph)
    if refused:
        raise ConfigurationError(refused)
    holder = f"{getpass.getuser()}@{socket.gethostname()}"
    async with AsyncExitStack() as stack:
        members, ends = {}, OutputEnds.of(cluster)
        stack.push_async_callback(ends.close)
        for name, spec in specs.items():
            logs = await stack.enter_async_context(pipeline_logs(cluster, name))
            members[name] = HeldPipeline(spec, logs, ends, holder, lease_ms)
            await members[name].begin()
        draining = Draining(graph, members)
        try:
            return await _within(draining, timeout_s)
        finally:
            await asyncio.gather(*(member.release() for member in members.values()), return_exceptions=True)


async def _within(draining: Draining, timeout_s: float) -> tuple[DrainedStep, ...]:
    if not await draining.go_on_for(timeout_s):
        raise RetriableError(
            f"pipelines have not come to one moment within {timeout_s:g} s; these were waited for: "
            f"{', '.join(draining.late())}. None is held any more. See kcontrol status of them, and give a longer "
            "--timeout where there is a backlog"
        )
    return await draining.checked()


class Draining:
    """One drain of pipelines that have begun."""

    def __init__(
        self,
        graph: RegionGraph,
        members: Mapping[str, HeldPipeline],
        number: int = 1,
        mode: DrainMode = DrainMode.ALIGNED,
    ) -> None:
        self._graph, self._members = graph, members
        self._wave = begin_drain(graph, number, mode)

    async def go_on(self) -> bool:
        """Look once at each, and tell it what follows; whether all have come to their cut. Side by side: nobody's hold runs out
        because a broker lets others wait. Raises NotNowError, RetriableError."""
        orders = self._wave.orders.items()
        looked = (self._carry_out(name, order) for name, order in orders)
        for fault in await asyncio.gather(*looked, return_exceptions=True):
            if fault is not None:
                raise fault
        return is_drained(self._graph, self._wave)

    async def go_on_for(self, seconds: float) -> bool:
        """Again and again, for so long at most; whether all have come to their cut. Raises as `go_on`."""
        until_s = time.monotonic() + seconds
        while not await self.go_on():
            if time.monotonic() >= until_s:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
        return True

    async def let_go(self) -> None:
        """Release those that may go on and have not been told. Raises RetriableError."""
        orders = self._wave.orders.items()
        await asyncio.gather(*(self._members[name].release() for name, order in orders if order.released))

    async def _carry_out(self, name: str, order: DrainOrder) -> None:
        member = self._members[name]
        if order.released:
            await member.release()
            return
        await member.hold(_as_limits(order.limits))
        if name in self._wave.cuts:
            return
        told = await member.said()
        if paused_inputs(member.spec, member.logs.view):
            await member.read_on()
        if told is None:
            return
        phase, step = told
        cut = await member.stand(step) if phase is HoldPhase.HELD and name not in self._wave.cuts else None
        self._wave = hear_answer(self._graph, self._wave, name, DrainAnswer(self._wave.number, cut))

    async def checked(self) -> tuple[DrainedStep, ...]:
        """Nothing is believed: what all logs say is compared. Raises NotNowError: it is no cut."""
        for member in self._members.values():
            await member.read_on()
        cuts = self._wave.cuts
        after = {name: written_after(one.boundaries, cuts[name].step) for name, one in self._members.items()}
        wrong = in_flight(self._graph, cuts, after)
        if wrong:
            raise NotNowError(
                f"somebody has let go of a pipeline while it was held, so there is no cut: {'; '.join(wrong)}. Ask again"
            )
        found = []
        for name in reversed(readers_first(self._graph)):
            member = self._members[name]
            boundary = next(one for one in member.boundaries if one.step == cuts[name].step)
            found.append(DrainedStep(name, boundary, member.boundaries[-1].step, cuts[name]))
        return tuple(found)

    def late(self) -> tuple[str, ...]:
        """Who has an order and has not come to its limits, and how it is."""
        return tuple(f"{name} ({self._how(name)})" for name in waits_for(self._wave))

    def _how(self, name: str) -> str:
        member = self._members[name]
        said = member.logs.view.status()
        if member.unasked:
            return member.unasked
        if said is None:
            return "nobody is in charge of it"
        why = "; ".join(filter(None, (said.reason, *self._paused(name))))
        return f"{said.phase.value} at step {said.step}{': ' + why if why else ''}"

    def _paused(self, name: str) -> list[str]:
        """Of each input that its user has paused before it was read up to its limits, a sentence. Its coordinator finds nothing
        wrong with that."""
        member, limits = self._members[name], self._wave.orders[name].limits
        paused, found = paused_inputs(member.spec, member.logs.view), []
        for item in member.spec.inputs:
            last = member.boundaries[-1].inputs if member.boundaries else ()
            read = {(each.topic, each.partition): each.to for each in last if each.input == item.name}
            wanted = {place: to for place, to in limits.items() if place[0] == item.topic}
            if item.name in paused and any(read.get(place, 0) < to for place, to in wanted.items()):
                found.append(
                    f"input {item.name} is paused, and has to be read up to where the drain is: kcontrol resume-input "
                    f"{name} {item.name}"
                )
        return found


def _as_limits(limits: Mapping[Place, int]) -> tuple[ReadLimit, ...]:
    return tuple(ReadLimit(topic, partition, to) for (topic, partition), to in sorted(limits.items()))
