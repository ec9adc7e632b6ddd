"""Requests to a pipeline of a Kafka cluster, answered once they are done: what commands ask for.

All raise what `kcontrol.requests.asking.ask` raises, NotFoundError when there is no such pipeline, and
TopicError when kcontrol was never used in the cluster. timeout_s: for a coordinator and nodes to act on it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.spec_topics import reach
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.model import DesiredMode, PipelineSpec, SkipRequest, Status
from kcontrol.errors import RetriableError
from kcontrol.requests.asking import ask
from kcontrol.requests.input_requests import pause_request, skip_request
from kcontrol.requests.pipeline_requests import checkpoint_request, mode_requests
from kcontrol.settings.cluster import ClusterSettings

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class SkipDone:
    """A skip that is in force. step: the one that begins at `request.to`; committed:
    whether it is in the log already."""

    request: SkipRequest
    step: int
    committed: bool


async def ask_mode(
    settings: ClusterSettings, pipeline: str, mode: DesiredMode, timeout_s: float = TIMEOUT_S
) -> Status:
    """Ask for running, paused or stopped; the status of the coordinator that has taken note of it."""
    async with _known(settings, pipeline) as logs:
        await ask(logs, mode_requests(logs.view, mode), timeout_s)
        return _said(logs)


async def ask_checkpoint(settings: ClusterSettings, pipeline: str, timeout_s: float = TIMEOUT_S) -> int:
    """Have the state saved; the step that is. Raises HaltedError or NotNowError when the pipeline does not
    run."""
    async with _known(settings, pipeline) as logs:
        await logs.read_steps_on()
        return (await ask(logs, checkpoint_request(logs.view, logs.committed.step), timeout_s)).step


async def ask_input(
    settings: ClusterSettings, pipeline: str, input_name: str, *, paused: bool, timeout_s: float = TIMEOUT_S
) -> Status:
    """Have an input paused, or read again; the status of the coordinator that goes by it,
    in every step after its `step`.

    Raises NotFoundError for an input that there is not.
    """
    async with _known(settings, pipeline) as logs:
        await ask(logs, pause_request(logs, input_name, paused=paused), timeout_s)
        return _said(logs)


async def ask_skip(
    settings: ClusterSettings,
    pipeline: str,
    wanted: tuple[str, int, int],
    by: str,
    timeout_s: float = TIMEOUT_S,
) -> SkipDone:
    """Have the next step begin a partition elsewhere. wanted, by: as in `skip_request`, whose errors it
    raises."""
    async with _known(settings, pipeline) as logs:
        await logs.read_steps_on()
        now_ms, look_at = SystemClock().now_ms(), partial(reach, settings, pipeline)
        (request,) = await skip_request(logs, wanted, by, now_ms, look_at)
        outcome = await ask(logs, (request,), timeout_s)
        step = outcome.step or logs.committed.step + 1
        return SkipDone(request, step, committed=step <= logs.committed.step)


async def definition(settings: ClusterSettings, pipeline: str) -> PipelineSpec:
    """The one in force."""
    async with _known(settings, pipeline) as logs:
        return logs.spec()


@asynccontextmanager
async def _known(settings: ClusterSettings, pipeline: str) -> AsyncIterator[PipelineLogs]:
    """With the control log read, and no step: a pipeline whose log of steps is damaged can be stopped,
    too."""
    async with pipeline_logs(settings, pipeline) as logs:
        await logs.read_control()
        yield logs


def _said(logs: PipelineLogs) -> Status:
    said = logs.view.status()
    if said is None:
        raise RetriableError(f"pipeline {logs.pipeline!r}: no coordinator has said anything")
    return said
