"""What a user asks of a running pipeline: written to its control partition, and done when its status acknowledges it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import uuid4

from kcontrol.adapters.kafka.control_log import KafkaControlLog
from kcontrol.core.model import Desired, DesiredMode, Logged, PipelineSpec, Resume, Status
from kcontrol.errors import NotFoundError, RetriableError
from kcontrol.runtime.settings import ClusterSettings

ACKNOWLEDGE_TIMEOUT_S = 30.0


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
    return await _ask(settings, Desired(pipeline, mode, uuid4().hex), timeout_s)


async def request_resume(settings: ClusterSettings, pipeline: str, timeout_s: float = ACKNOWLEDGE_TIMEOUT_S) -> Status:
    """Ask to go on after a halt; as `request_mode`."""
    return await _ask(settings, Resume(pipeline, uuid4().hex), timeout_s)


async def _ask(settings: ClusterSettings, request: Desired | Resume, timeout_s: float) -> Status:
    log = await KafkaControlLog.open(settings, request.pipeline)
    try:
        _overview(request.pipeline, await log.read_to_end())
        await log.append([request])
        async with asyncio.timeout(timeout_s):
            return await _acknowledgement(log, request.request_id)
    except TimeoutError as error:
        raise RetriableError(
            f"Pipeline {request.pipeline!r}: no coordinator acknowledged the request within {timeout_s:.0f} s. It is recorded "
            "and will be followed once one runs: start `kcontrol coordinator`."
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
    newest = {type(entry.record): entry for entry in entries}
    spec, desired, status = (newest.get(kind) for kind in (PipelineSpec, Desired, Status))
    if spec is None or not isinstance(spec.record, PipelineSpec):
        raise NotFoundError(f"There is no pipeline {pipeline!r}: nobody has started it here. `kcontrol run FILE.py` does.")
    return PipelineOverview(
        spec=spec.record,
        desired=desired.record if desired and isinstance(desired.record, Desired) else None,
        status=status.record if status and isinstance(status.record, Status) else None,
        status_at_ms=status.timestamp_ms if status else 0,
    )
