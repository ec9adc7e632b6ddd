"""What people want of regions, written down, and what became of it, read in the regions' logs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.apps.regions.going_back import BackPlan, plan_rollback
from kcontrol.core.regions.leading import refused_cut
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import refused_asker
from kcontrol.core.regions.records import (
    RegionAnswer,
    RegionDefinition,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
)
from kcontrol.errors import ConfigurationError, HaltedError, NotFoundError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.requests.region_rollbacks import rollback_meant
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import check_region_name

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_SETTLES_S = 15.0
"""A cluster of several brokers misses one that was killed after nine seconds. An address at which nobody is shall not be waited
for any longer."""


class RegionReader:
    """One region, as its records in Kafka show it."""

    def __init__(self, region: str, asked: KafkaAskedRegions, log: KafkaRegionLog) -> None:
        self.region, self.asked, self._log = region, asked, log
        self.view = RegionLogView()

    async def look(self) -> RegionLogView:
        """Both topics, on to their ends. Raises NotFoundError: there is no such region. RetriableError, TopicError."""
        await self.asked.look()
        if self.region not in self.asked.definitions:
            known = ", ".join(sorted(self.asked.definitions)) or "none"
            raise NotFoundError(
                f"there is no region {self.region!r}; there are {known}: see kcontrol region apply"
            )
        self.view = read_on(self.view, await self._log.read())
        return self.view

    @property
    def definition(self) -> RegionDefinition:
        return self.asked.definitions[self.region]

    async def ask(self, request: RegionRequest, timeout_s: float) -> RegionAnswer:
        """Write a request down, and wait for what becomes of it.

        A broker that is away is waited for, within that time. What may have been written is written again then: a request
        counts once. Raises NotNowError: somebody has asked for something else since, or the member in whose name it is asked
        for may not; then nothing is written, so nobody else's wish is displaced. RetriableError: nothing in time.
        NotFoundError, TopicError, AccessError.
        """
        deadline_s = time.monotonic() + timeout_s
        await self._in_time(self.look, min(deadline_s, time.monotonic() + _SETTLES_S))
        refused = refused_asker(self.definition.settings, request.member)
        if refused:
            raise NotNowError(refused)
        await self._in_time(lambda: self.asked.ask(request), deadline_s)
        while True:
            await self._in_time(self.look, deadline_s)
            found = self.view.answer(request.request_id)
            if found is not None:
                return found
            newest = self.asked.requests(self.region).get(request.kind)
            if newest is not None and newest.request_id != request.request_id:
                raise NotNowError(
                    f"region {self.region!r}: {newest.by} has asked for a {request.kind} since, which counts instead"
                )
            if time.monotonic() > deadline_s:
                raise RetriableError(self._too_late(request, timeout_s))
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _in_time(self, action: Callable[[], Awaitable[object]], deadline_s: float) -> None:
        left_ms = max(1, round(1_000 * (deadline_s - time.monotonic())))
        await until_deadline(
            action, f"reading and writing what is asked of region {self.region!r}", _log, left_ms
        )

    def _too_late(self, request: RegionRequest, timeout_s: float) -> str:
        beat, newest = self.view.beat, self.view.newest
        if newest is None or beat is None or beat.ended:
            return (
                f"region {self.region!r}: nobody is in charge of it, so nobody has answered within {timeout_s:g} s. Start "
                f"kcontrol region-controller: the {request.kind} stays asked for"
            )
        waits = f": it waits for {'; '.join(beat.waits_for)}" if beat.waits_for else ""
        return (
            f"region {self.region!r} is {newest.state}, and has not answered within {timeout_s:g} s{waits}. The "
            f"{request.kind} stays asked for: see kcontrol region status {self.region}"
        )


@asynccontextmanager
async def region_reader(cluster: ClusterSettings, region: str) -> AsyncIterator[RegionReader]:
    """Unread. Raises ConfigurationError for a name that no region can have."""
    check_region_name(region)
    asked, log = KafkaAskedRegions(cluster), KafkaRegionLog(cluster, region)
    try:
        yield RegionReader(region, asked, log)
    finally:
        await asyncio.gather(asked.close(), log.close())


async def plan_region_rollback(
    cluster: ClusterSettings,
    region: str,
    to_cut: int,
    leave_behind: Collection[str],
    own: Path,
    as_of: int | None = None,
    timeout_s: float = 0.0,
) -> tuple[tuple[BackPlan, ...], int]:
    """What would be taken back to a cut, and the number of the region's newest change.

    leave_behind, own: as `plan_reset` has them. as_of: the number that an earlier plan was told; None: any. timeout_s: a broker
    that is away is waited for so long, and no longer than it takes a cluster to miss it. Raises what `plan_reset` does, and
    NotNowError: nobody is in charge of the region, or it has changed since.
    """

    async def plan() -> tuple[tuple[BackPlan, ...], int]:
        return await _planned_once(cluster, region, to_cut, leave_behind, own, as_of)

    if timeout_s <= 0:
        return await plan()
    wait_ms = round(1_000 * min(timeout_s, _SETTLES_S))
    return await until_deadline(plan, f"planning the rollback of region {region!r}", _log, wait_ms)


async def _planned_once(
    cluster: ClusterSettings,
    region: str,
    to_cut: int,
    leave_behind: Collection[str],
    own: Path,
    as_of: int | None,
) -> tuple[tuple[BackPlan, ...], int]:
    async with region_reader(cluster, region) as reader:
        view = await reader.look()
        if view.newest is None or view.has_ended:
            raise NotNowError(
                f"region {region!r}: nobody is in charge of it, and its controller takes pipelines back: start kcontrol "
                "region-controller, then ask again. Nothing was reset"
            )
        if as_of not in (None, view.newest.number):
            raise NotNowError(
                f"region {region!r} has come to change {view.newest.number}, and {as_of} was said to be its newest: plan the "
                "rollback anew. Nothing was reset"
            )
        cut = view.cuts.get(to_cut)
        refused = refused_cut(to_cut, cut, reader.definition.settings)
        if cut is None or refused:
            raise ConfigurationError(f"{refused}. Nothing was reset")
    return await plan_rollback(cluster, cut, uuid4().hex, leave_behind, own), view.newest.number


async def abandon_rollback(
    cluster: ClusterSettings, region: str, to_cut: int | None, by: str, why: str, timeout_s: float
) -> RegionAnswer:
    """Give up the rollback under way, also where it can't be completed. `why` says who is back, `seq_id` at which cut.
    to_cut: of the one that is meant; None: that which is found.

    Raises NotNowError: none is under way, or another one. RetriableError: nothing in time. NotFoundError.
    """
    async with region_reader(cluster, region) as reader:
        request = abandon_request(region, await reader.look(), to_cut, None, by, why)
    answer, _ = await ask_region(cluster, request, timeout_s)
    return answer


def abandon_request(
    region: str, view: RegionLogView, to_cut: int | None, as_of: int | None, by: str, why: str
) -> RegionRequest:
    """It names the rollback under way. Raises what `rollback_meant` does."""
    rollback = rollback_meant(region, view, to_cut, as_of)
    number = 0 if view.newest is None else view.newest.number
    request = request_of(region, RegionRequestKind.ROLLBACK, by)
    return replace(request, why=why, as_of=number, gives_up=rollback.request_id)


async def delete_region(cluster: ClusterSettings, region: str) -> None:
    """Its pipelines go on by themselves; its log stays, and its numbers go on if it is defined again. Raises NotFoundError,
    NotNowError: they are being taken back to a cut."""
    async with region_reader(cluster, region) as reader:
        view = await reader.look()
        if view.newest is not None and view.newest.rollback is not None:
            raise NotNowError(
                f"region {region!r}: its pipelines are being taken back to cut {view.newest.rollback.to_cut}, and some are not "
                f"yet: see kcontrol region status; if they can't be, give it up: kcontrol region rollback {region} --abandon"
            )
        await reader.asked.forget(region)


async def ask_region(
    cluster: ClusterSettings, request: RegionRequest, timeout_s: float
) -> tuple[RegionAnswer, RegionLogView]:
    """Ask, and wait for what becomes of it: a drain is answered once its cut is in the log.

    Raises NotNowError: it was refused. HaltedError: no attempt is left. RetriableError: nothing in time. NotFoundError.
    """
    async with region_reader(cluster, request.region) as reader:
        answer = await reader.ask(request, timeout_s)
        if answer.outcome is RegionOutcome.REFUSED:
            raise NotNowError(f"region {request.region!r}: {answer.why}")
        if answer.outcome is RegionOutcome.FAILED:
            raise HaltedError(f"region {request.region!r}: {answer.why}")
        return answer, reader.view


def request_of(
    region: str,
    kind: RegionRequestKind,
    by: str,
    *,
    hold: bool = False,
    force: bool = False,
    member: str = "",
) -> RegionRequest:
    """One that nobody has made before."""
    at_ms = SystemClock().now_ms()
    return RegionRequest(region, kind, by, at_ms, uuid4().hex, hold, force, member=member)
