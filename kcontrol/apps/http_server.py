"""The servers that there are: the whole interface with the projections that it answers
from, and a node's metrics alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.generated.facts import AnyRecordLook
from kcontrol.adapters.http.app import make_app, make_metrics_app
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.listener import Listener
from kcontrol.adapters.http.output_pieces import OutputStreams
from kcontrol.adapters.http.plane import Check, Plane
from kcontrol.adapters.http.push_desk import PushDesk
from kcontrol.adapters.http.queries import Ask
from kcontrol.adapters.kafka.admin.kept_deliveries import KeptDeliveries, Look
from kcontrol.adapters.kafka.admin.topic_safety import KeptSafety
from kcontrol.adapters.kafka.push.log import KafkaPushLog
from kcontrol.adapters.kafka.read.record_look import KafkaRecordLook
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.metrics.agents import register_cluster
from kcontrol.adapters.metrics.pipelines import PipelineMetrics
from kcontrol.adapters.metrics.pushes import PushMetrics
from kcontrol.adapters.metrics.regions import register_regions
from kcontrol.adapters.metrics.streams import StreamMetrics
from kcontrol.adapters.profiling.profiler import Profiler
from kcontrol.apps.agent.following import Agents, KnownAgents
from kcontrol.apps.followed_output import FollowedOutput
from kcontrol.apps.regions.following import KnownRegions, Regions
from kcontrol.requests.agents import AskAgents, no_agents
from kcontrol.requests.push.observer import UNSEEN
from kcontrol.requests.region_rollbacks import Rollbacks, no_rollbacks
from kcontrol.requests.resets import Resets, no_resets
from kcontrol.requests.table_questions import nobody_answers
from kcontrol.sessions.health import Health
from kcontrol.sessions.ports import ProjectionSource
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.cluster_projection import Projections


async def serve_interface(
    listener: Listener,
    settings: ClusterSettings,
    source: ProjectionSource,
    registry: CollectorRegistry,
    checks: Sequence[Check] = (),
    ask: Ask = nobody_answers,
    agents: Agents | None = None,
    ask_agents: AskAgents = no_agents,
    regions: Regions | None = None,
    resets: Resets = no_resets,
    rollbacks: Rollbacks = no_rollbacks,
    deliveries: Look | None = None,
) -> None:
    """Follow the topics and answer until the listener is stopped or this is cancelled.

    source: of the cluster that `settings` name. checks: of the process that it is part of, for /health/ready.
    ask, resets, rollbacks, ask_agents: who answers questions about tables, resets pipelines, takes regions back, asks agents.
    agents, regions: or None. deliveries: who asks for what deliveries tell; None: Kafka is asked.
    """
    clock = SystemClock()
    metrics = PipelineMetrics(registry, clock)
    projections = Projections(source, clock, metrics.on_step)
    metrics.watch(projections)
    agents, regions, asked = agents or KnownAgents(), regions or KnownRegions(), KafkaAskedRegions(settings)
    register_cluster(registry, agents.seen)
    register_regions(registry, regions.seen)
    limits = listener.options.limits
    pushes = KafkaPushLog(settings, clock, limits.remembered) if limits.max_push_bytes else None
    told = KeptDeliveries(settings, deliveries)
    streams = _streams(settings, limits, registry)
    observer = PushMetrics(registry, pushes.remembered, limits.remembered.requests) if pushes else UNSEEN
    plane = Plane(
        settings,
        projections,
        clock,
        registry,
        checks,
        limits.longest_wait_s,
        safety=KeptSafety(settings).of,
        look=AnyRecordLook(KafkaRecordLook(settings)),
        max_look_offsets=limits.max_look_offsets,
        ask=ask,
        streams=streams,
        pushes=PushDesk(pushes, limits.bodies, limits.max_queued_rows, observer),
        agents=agents.seen,
        ask_agents=ask_agents,
        regions=regions.seen,
        until_regions=regions.until,
        ask_region=asked.ask,
        resets=resets,
        rollbacks=rollbacks,
        deliveries=told.of,
    )
    serving = listener.serve(make_app(plane, limits, listener.options.token))
    tasks = [asyncio.create_task(each) for each in (projections.run(), agents.run(), regions.run(), serving)]
    try:
        await _until_one_ends(tasks)
    finally:
        await _close(told, streams, asked, pushes)


def _streams(settings: ClusterSettings, limits: HttpLimits, registry: CollectorRegistry) -> OutputStreams:
    """With their metrics, if there may be any."""
    streams = OutputStreams(partial(FollowedOutput, settings), limits.max_streams, limits.longest_stream_s)
    if streams.most:
        streams.observer = StreamMetrics(registry, lambda: streams.running, streams.most)
    return streams


class _Closing(Protocol):
    """What holds something open."""

    async def close(self) -> None: ...


async def _close(*those: _Closing | None) -> None:
    for each in those:
        if each is not None:
            await each.close()


async def _until_one_ends(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Following never ends by itself: if it does, that is a bug, and the server must not go on with old news. Raises what it
    ended with. None of them runs on."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def serve_metrics(
    listener: Listener,
    registry: CollectorRegistry,
    profiler: Profiler | None = None,
    health: Health | None = None,
) -> None:
    """Answer /metrics, /health/live and /profile, and nothing else, until the listener
    is stopped or this is cancelled."""
    options = listener.options
    await listener.serve(make_metrics_app(registry, options.limits, options.token, profiler, health))
