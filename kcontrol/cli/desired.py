"""`kcontrol pause`, `resume` and `stop`: say what is wanted, and wait until the coordinator has acted on it."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import click

from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.cli.view import PipelineLogs, pipeline_logs
from kcontrol.core import pipeline_view
from kcontrol.core.model import Desired, DesiredMode, PipelinePhase, Resume, Status
from kcontrol.errors import KcontrolError
from kcontrol.runtime.settings import ClusterSettings

timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0.1), default=60.0, show_default=True, help="Seconds to wait for it."
)


@click.command()
@click.argument("pipeline")
@timeout_option
@cluster_option
@json_option
@debug_option
def pause(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Make no more steps; the nodes stay open, so that `resume` goes on at once.

    \b
    Example:  kcontrol pause flights
    """
    _ask(pipeline, DesiredMode.PAUSED, timeout_s, cluster, as_json)


@click.command()
@click.argument("pipeline")
@timeout_option
@cluster_option
@json_option
@debug_option
def resume(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Go on after a pause, a stop or a halt. After a halt, put right first what `kcontrol status` names.

    \b
    Example:  kcontrol resume flights
    """
    _ask(pipeline, DesiredMode.RUNNING, timeout_s, cluster, as_json)


@click.command()
@click.argument("pipeline")
@timeout_option
@cluster_option
@json_option
@debug_option
def stop(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Make no more steps, close the nodes' queries and end their processes.

    \b
    Example:  kcontrol stop flights
    """
    _ask(pipeline, DesiredMode.STOPPED, timeout_s, cluster, as_json)


def _ask(pipeline: str, mode: DesiredMode, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    said = asyncio.run(_request(pipeline, mode, timeout_s, cluster))
    facts = {"pipeline": pipeline, "phase": said.phase.value, "step": said.step, "reason": said.reason}
    click.echo(json.dumps(facts) if as_json else f"pipeline {pipeline}: {said.phase.value} at step {said.step}")


async def _request(pipeline: str, mode: DesiredMode, timeout_s: float, cluster: ClusterSettings) -> Status:
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        request_id = await want(logs, mode)
        try:
            return await asyncio.wait_for(_acknowledged(logs, request_id), timeout_s)
        except TimeoutError:
            raise KcontrolError(
                f"pipeline {pipeline!r}: the request is recorded, but no coordinator has acted on it within {timeout_s:g} s; "
                "see that one runs (kcontrol coordinator) and look at kcontrol status"
            ) from None


async def want(logs: PipelineLogs, mode: DesiredMode) -> str:
    """Record what is wanted; returns the request id that the status will acknowledge."""
    pipeline, request_id = logs.view.pipeline, uuid4().hex
    said = logs.view.status()
    halted = said is not None and said.phase is PipelinePhase.HALTED
    resume_id = uuid4().hex
    resumed = [Resume(pipeline, resume_id)] if halted and mode is DesiredMode.RUNNING else []
    await logs.control.append([*resumed, Desired(pipeline, mode, request_id)])
    return request_id


async def _acknowledged(logs: PipelineLogs, request_id: str) -> Status:
    async for chunk in logs.control.tail():
        for logged in chunk:
            logs.view = pipeline_view.evolve(logs.view, logged)
        said = logs.view.status()
        if said is not None and request_id in said.acknowledged:
            return said
    raise KcontrolError("the control topic ended")
