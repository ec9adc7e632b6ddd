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
from dataclasses import dataclass, field
from uuid import uuid4

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.apps.cuts import readers_first, specs_of
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.model import Hold, HoldPhase, PipelineSpec, ReadLimit, Status, StepBoundary
from kcontrol.core.regions.cut import PipelineCut, Place, in_flight, written_after
from kcontrol.core.regions.graph import RegionGraph, graph_of, refused_graph
from kcontrol.core.regions.wave import (
    DrainAnswer,
    DrainMode,
    DrainOrder,
    begin_drain,
    hear_answer,
    is_drained,
    waits_for,
)
from kcontrol.errors import ConfigurationError, NotFoundError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings

LEASE_MS = 15_000
_RENEW_EVERY_S = 4.0
_LOOK_EVERY_S = 0.05


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
    async with AsyncExitStack() as stack:
        members = {}
        for name, spec in specs.items():
            logs = await stack.enter_async_context(pipeline_logs(cluster, name))
            members[name] = _Member(spec, logs, TopicAdmin(cluster), lease_ms)
            await members[name].begin()
        draining = _Draining(graph, members, timeout_s)
        try:
            return await draining.run()
        finally:
            await asyncio.gather(*(member.release() for member in members.values()), return_exceptions=True)


@dataclass
class _Member:
    """One pipeline that is drained, as its logs show it."""

    spec: PipelineSpec
    logs: PipelineLogs
    admin: TopicAdmin
    lease_ms: int
    written: dict[str, tuple[ReadLimit, ...]] = field(default_factory=dict)
    """By request, the limits of every hold that was written here."""
    limits: tuple[ReadLimit, ...] | None = None
    """Of the hold that is renewed; None: none is."""
    renewed_s: float = 0.0
    boundaries: list[StepBoundary] = field(default_factory=list)
    """Of the last step when it began, and of all after it."""

    async def begin(self) -> None:
        """Raises NotFoundError, NotNowError."""
        await self.logs.read()
        last, newest, said = self.logs.committed.last, self.logs.view.hold(), self.logs.view.status()
        if last is None:
            raise NotFoundError(f"pipeline {self.spec.pipeline!r} has no committed step yet")
        self.boundaries = [last]
        if newest is not None and not newest[1].released and not _is_given_up(newest[1], said):
            hold = newest[1]
            raise NotNowError(
                f"pipeline {self.spec.pipeline!r} is held by {hold.holder}: ask again once it is released, which is "
                f"{hold.timeout_ms / 1000:g} s after that has died. Nobody was held"
            )

    async def hold(self, limits: tuple[ReadLimit, ...]) -> None:
        """From now on, and renewed from time to time."""
        if self.limits == limits and time.monotonic() < self.renewed_s + _RENEW_EVERY_S:
            return
        self.limits, self.renewed_s = limits, time.monotonic()
        await self._write(limits, released=False)

    async def release(self) -> None:
        """It goes on as if it had never been held."""
        if self.limits is not None:
            self.limits = None
            await self._write((), released=True)

    async def _write(self, limits: tuple[ReadLimit, ...], *, released: bool) -> None:
        request_id = uuid4().hex
        self.written[request_id] = limits
        holder = f"{getpass.getuser()}@{socket.gethostname()}"
        await self.logs.own_control.append(
            [Hold(self.spec.pipeline, holder, 0, limits, released, self.lease_ms, request_id)]
        )

    async def said(self) -> tuple[HoldPhase, int] | None:
        """How far it is with what is held here; None: it has not taken note of that yet. Raises NotNowError: it is held by
        somebody else now, or was not renewed in time."""
        await self.logs.read_control()
        newest, said = self.logs.view.hold(), self.logs.view.status()
        if newest is not None and self.written and newest[1].request_id not in self.written:
            raise NotNowError(
                f"pipeline {self.spec.pipeline!r} is held by {newest[1].holder} since: ask again"
            )
        if said is None or said.hold is None or self.written.get(said.hold.request_id) != self.limits:
            return None
        if said.hold.phase is HoldPhase.GIVEN_UP:
            raise NotNowError(
                f"pipeline {self.spec.pipeline!r} was held for {self.lease_ms / 1000:g} s without a word from here, and goes "
                "on: ask again"
            )
        return said.hold.phase, said.hold.step

    async def stand(self, step: int) -> PipelineCut | None:
        """Where it is held; None if it is there no more. Its outputs end where they end while it stands, or, where the
        markers of its last transaction are not there yet, where that step has written to."""
        ended = await asyncio.to_thread(self._ends)
        await self.read_on()
        last = self.boundaries[-1]
        if last.step != step:
            return None
        for piece in last.outputs:
            place = piece.topic, piece.partition
            ended[place] = max(ended.get(place, 0), piece.to)
        return PipelineCut(step, {(one.topic, one.partition): one.to for one in last.inputs}, ended)

    def _ends(self) -> dict[Place, int]:
        return {
            (output.topic, partition): end
            for output in self.spec.outputs
            for partition, end in enumerate(self.admin.offsets(output.topic, output.partitions).latest)
        }

    async def read_on(self) -> None:
        """The log of steps, to its end."""
        read = (each.record for each in await self.logs.read_steps_on())
        self.boundaries += [each for each in read if isinstance(each, StepBoundary)]


class _Draining:
    """One drain. By the clock of this process."""

    def __init__(self, graph: RegionGraph, members: Mapping[str, _Member], timeout_s: float) -> None:
        self._graph, self._members = graph, members
        self._timeout_s = timeout_s
        self._wave = begin_drain(graph, 1, DrainMode.ALIGNED)

    async def run(self) -> tuple[DrainedStep, ...]:
        """Raises NotNowError, RetriableError."""
        deadline_s = time.monotonic() + self._timeout_s
        while not is_drained(self._graph, self._wave):
            if time.monotonic() > deadline_s:
                raise RetriableError(self._too_late())
            for name, order in self._wave.orders.items():
                await self._carry_out(name, order)
            await asyncio.sleep(_LOOK_EVERY_S)
        return await self._checked()

    async def _carry_out(self, name: str, order: DrainOrder) -> None:
        member = self._members[name]
        if order.released:
            await member.release()
            return
        await member.hold(_as_limits(order.limits))
        told = await member.said()
        if told is None:
            return
        phase, step = told
        cut = await member.stand(step) if phase is HoldPhase.HELD and name not in self._wave.cuts else None
        self._wave = hear_answer(self._graph, self._wave, name, DrainAnswer(self._wave.number, cut))

    async def _checked(self) -> tuple[DrainedStep, ...]:
        """Nothing is believed: what all logs say is compared."""
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

    def _too_late(self) -> str:
        late = []
        for name in waits_for(self._wave):
            said = self._members[name].logs.view.status()
            now = "nobody is in charge of it" if said is None else f"{said.phase.value} at step {said.step}"
            late.append(f"{name} ({now}{': ' + said.reason if said is not None and said.reason else ''})")
        return (
            f"pipelines have not come to one moment within {self._timeout_s:g} s; these were waited for: {', '.join(late)}. "
            "None is held any more. See kcontrol status of them, and give a longer --timeout where there is a backlog"
        )


def _is_given_up(hold: Hold, said: Status | None) -> bool:
    """Whether the coordinator no longer goes by it. One that it has not noted yet may have been renewed just now."""
    told = None if said is None else said.hold
    return told is not None and told.request_id == hold.request_id and told.phase is HoldPhase.GIVEN_UP


def _as_limits(limits: Mapping[Place, int]) -> tuple[ReadLimit, ...]:
    return tuple(ReadLimit(topic, partition, to) for (topic, partition), to in sorted(limits.items()))
