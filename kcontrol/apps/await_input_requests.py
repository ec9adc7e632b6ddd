"""Requests about inputs of a pipeline in a Kafka cluster: see `kcontrol.requests.waiting`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.apps.await_requests import ACKNOWLEDGE_TIMEOUT_S
from kcontrol.core.model import InputSpec, Status
from kcontrol.requests.input_requests import SkipTaken
from kcontrol.requests.waiting import InputRequests
from kcontrol.sessions.ports import Reach
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import check_pipeline_name


async def request_input(
    settings: ClusterSettings, pipeline: str, input_name: str, *, paused: bool, timeout_s: float = ACKNOWLEDGE_TIMEOUT_S
) -> Status:
    """See InputRequests.pause; raises TopicError, too, when kcontrol was never used in the cluster."""
    async with _requests(settings, pipeline, timeout_s) as requests:
        return await requests.pause(input_name, paused=paused)


async def request_skip(
    settings: ClusterSettings,
    pipeline: str,
    input_name: str,
    partition: int,
    to: int,
    by: str,
    timeout_s: float = ACKNOWLEDGE_TIMEOUT_S,
) -> SkipTaken:
    """See InputRequests.skip; raises TopicError, too, when a topic is missing."""
    look_at = partial(reach, settings, pipeline)
    async with _requests(settings, pipeline, timeout_s) as requests:
        return await requests.skip(input_name, partition, to, by, SystemClock().now_ms(), look_at)


async def reach(settings: ClusterSettings, pipeline: str, item: InputSpec) -> Reach:
    """How far an input's topic reaches. Raises TopicError when there is none."""
    return await asyncio.to_thread(_reach, settings, pipeline, item)


def _reach(settings: ClusterSettings, pipeline: str, item: InputSpec) -> Reach:
    admin = TopicAdmin(settings)
    found = admin.get(item.topic, f"pipeline {pipeline!r}, input {item.name!r}")
    return Reach(found.topic_id, admin.offsets(item.topic, found.partitions).latest)


@asynccontextmanager
async def _requests(settings: ClusterSettings, pipeline: str, timeout_s: float) -> AsyncIterator[InputRequests]:
    check_pipeline_name(pipeline)
    control = await KafkaControlLog.open(settings, pipeline)
    steps = KafkaStepsLog(settings, pipeline)
    try:
        yield InputRequests(pipeline, control, steps, timeout_s)
    finally:
        await asyncio.gather(control.close(), steps.close())
