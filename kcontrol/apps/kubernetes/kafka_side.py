"""What Kafka says of pipelines and regions that have a resource in Kubernetes, and what is written there for them."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass

from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.apps.regions.asking import RegionReader, delete_region, region_reader
from kcontrol.apps.regions.defining import apply_region
from kcontrol.core.kubernetes.regions import BY
from kcontrol.core.model import Status
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionPods, RegionRequest, RegionRequestKind
from kcontrol.errors import ConfigurationError, NotFoundError, TopicError
from kcontrol.settings.cluster import ClusterSettings

HEARD_WITHIN_S = 10.0
"""A coordinator says how its pipeline is every two seconds."""
PODS_SAID_EVERY_S = 5.0
"""While any is away: well within the lease of what is said of them."""


@dataclass
class _HeardPipeline:
    """One pipeline's logs. at: offset of its newest status; since: when that was first seen here."""

    logs: PipelineLogs
    at: int = -1
    since_s: float = 0.0


class KafkaSide:
    """Readers are kept open between looks; whatever they know is read again by the next life."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster
        self._pipelines: dict[str, tuple[AsyncExitStack, _HeardPipeline]] = {}
        self._regions: dict[str, tuple[AsyncExitStack, RegionReader]] = {}
        self._said_away: dict[str, tuple[tuple[str, ...], float]] = {}
        """By region: what was said last of its pods, and when."""

    async def close(self) -> None:
        await self.forget((), ())

    async def forget(self, pipelines: Collection[str], regions: Collection[str]) -> None:
        """All but these."""
        for name in [name for name in self._pipelines if name not in pipelines]:
            await self._pipelines.pop(name)[0].aclose()
        for name in [name for name in self._regions if name not in regions]:
            await self._regions.pop(name)[0].aclose()
            self._said_away.pop(name, None)

    # --- pipelines ------------------------------------------------------------------------------------------

    async def pipeline(self, name: str) -> tuple[Status | None, bool]:
        """What its coordinator said last, and whether that is from now; (None, False): it was never submitted, or nobody has
        said anything. Raises RetriableError, AccessError."""
        try:
            heard = await self._heard(name)
            await heard.logs.read_control()
        except (NotFoundError, TopicError):
            return None, False
        view = heard.logs.view
        logged, now_s = view.latest.get(f"{name}/status"), time.monotonic()
        at = -1 if logged is None else logged.offset
        if at != heard.at:
            heard.at, heard.since_s = at, now_s
        return view.status(), at >= 0 and now_s - heard.since_s <= HEARD_WITHIN_S

    async def _heard(self, name: str) -> _HeardPipeline:
        if name not in self._pipelines:
            stack = AsyncExitStack()
            logs = await stack.enter_async_context(pipeline_logs(self._cluster, name))
            self._pipelines[name] = stack, _HeardPipeline(logs)
        return self._pipelines[name][1]

    # --- regions --------------------------------------------------------------------------------------------

    async def define(self, settings: RegionSettings, by: str) -> RegionLogView:
        """See that a region is defined so, and read its log. Raises ConfigurationError: it can't be one, or is another
        resource's. NotFoundError: a pipeline was not submitted yet. RetriableError, AccessError, TopicError."""
        reader = await self._reader(settings.region)
        if await self._view(reader) is not None:
            there = reader.definition
            if there.by != by and there.by.startswith(f"{BY} "):
                raise ConfigurationError(
                    f"region {settings.region!r} is defined by {there.by}: give this resource another name, or remove "
                    f"that with kcontrol region delete {settings.region}"
                )
            if there.settings == settings:
                return reader.view
        await apply_region(self._cluster, settings, by)
        await reader.look()
        return reader.view

    async def ask(self, request: RegionRequest) -> None:
        """Unless that very request is there, or was answered."""
        reader = await self._reader(request.region)
        newest = reader.asked.requests(request.region).get(request.kind)
        is_there = newest is not None and newest.request_id == request.request_id
        if not is_there and reader.view.answer(request.request_id) is None:
            await reader.asked.ask(request)

    async def newest_rollback(self, region: str) -> RegionRequest | None:
        """The request for one that counts, as of the last look at the region."""
        reader = await self._reader(region)
        return reader.asked.requests(region).get(RegionRequestKind.ROLLBACK)

    async def say_pods(self, pods: RegionPods) -> None:
        """At once when others are away than before, and again while any is. Raises RetriableError, AccessError."""
        now_s = time.monotonic()
        before, said_s = self._said_away.get(pods.region, (None, 0.0))
        if pods.away == before and (not before or now_s - said_s < PODS_SAID_EVERY_S):
            return
        reader = await self._reader(pods.region)
        await reader.asked.ask(pods)
        self._said_away[pods.region] = pods.away, now_s

    async def undefine(self, region: str, by: str) -> None:
        """If it is defined by whom it is to be. Raises NotNowError: its pipelines are being taken back. RetriableError,
        AccessError."""
        reader = await self._reader(region)
        if await self._view(reader) is not None and reader.definition.by == by:
            await delete_region(self._cluster, region)

    async def _reader(self, region: str) -> RegionReader:
        if region not in self._regions:
            stack = AsyncExitStack()
            self._regions[region] = (
                stack,
                await stack.enter_async_context(region_reader(self._cluster, region)),
            )
        return self._regions[region][1]

    async def _view(self, reader: RegionReader) -> RegionLogView | None:
        """None: it is not defined."""
        try:
            return await reader.look()
        except (NotFoundError, TopicError):
            return None
