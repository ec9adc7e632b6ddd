"""A user's request to a running pipeline, from the record in its control partition to the status that acknowledges it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import reduce

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.log.keys import key_of
from kcontrol.core.model import Desired, DesiredMode, Logged, PipelineSpec, Status
from kcontrol.errors import RetriableError
from kcontrol.requests.record import record_mode
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_projection import never_submitted

ACKNOWLEDGE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class PipelineOverview:
    """The newest of the records that tell how a pipeline is; None for those that were never written."""

    spec: PipelineSpec
    desired: Desired | None
    status: Status | None
    status_at_ms: int


async def overview(settings: ClusterSettings, pipeline: str) -> PipelineOverview:
    """How a pipeline is now. Raises NotFoundError: nobody has submitted it."""
    log = await KafkaControlLog.open(settings, pipeline)
    try:
        return _overview(pipeline, await log.read_to_end())
    finally:
        await log.close()


async def request_mode(
    settings: ClusterSettings, pipeline: str, mode: DesiredMode, timeout_s: float = ACKNOWLEDGE_TIMEOUT_S
) -> Status:
    """Ask for running, paused or stopped, and wait until a coordinator has taken note; its status then.

    Raises NotFoundError: there is no such pipeline. RetriableError: nobody acknowledged in time; the request stays and is
    followed by the next coordinator.
    """
    log = await KafkaControlLog.open(settings, pipeline)
    try:
        now = _overview(pipeline, await log.read_to_end())
        asked = await record_mode(log, pipeline, mode, now.status)
        async with asyncio.timeout(timeout_s):
            return await _acknowledgement(log, asked.request_id)
    except TimeoutError as error:
        raise RetriableError(
            f"pipeline {pipeline!r}: the request is recorded, but no coordinator has acted on it within {timeout_s:g} s; "
            "see that one runs (kcontrol coordinator) and look at kcontrol status"
        ) from error
    finally:
        await log.close()


async def _acknowledgement(log: KafkaControlLog, request_id: str) -> Status:
    async for chunk in log.tail():
        for entry in chunk:
            if isinstance(entry.record, Status) and request_id in entry.record.acknowledged:
                return entry.record
    raise RetriableError("the control topic ended")


def _overview(pipeline: str, entries: list[Logged]) -> PipelineOverview:
    view = reduce(evolve, entries, PipelineView.empty(pipeline))
    spec, status = view.spec(), view.status()
    if spec is None:
        raise never_submitted(pipeline)
    at_ms = view.latest[key_of(status)].timestamp_ms if status is not None else 0
    return PipelineOverview(spec=spec, desired=view.desired(), status=status, status_at_ms=at_ms)
