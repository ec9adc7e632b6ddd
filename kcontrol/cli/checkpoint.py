"""`kcontrol checkpoint`: have the pipeline's state saved now, and wait until it is."""

from __future__ import annotations

import asyncio
import json

import click

from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.cli.desired import timeout_option
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.keys import key_of
from kcontrol.core.model import CheckpointAnswer, CheckpointRequest
from kcontrol.errors import KcontrolError
from kcontrol.requests.record import Recorded, record_checkpoint
from kcontrol.settings.cluster import ClusterSettings


@click.command()
@click.argument("pipeline")
@timeout_option
@cluster_option
@json_option
@debug_option
def checkpoint(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Save the state of all nodes now, without stopping the steps; answers with the step that is saved.

    \b
    Example:  kcontrol checkpoint flights
    """
    step = asyncio.run(_checkpoint(pipeline, timeout_s, cluster))
    click.echo(json.dumps({"pipeline": pipeline, "step": step}) if as_json else f"pipeline {pipeline}: saved at step {step}")


async def _checkpoint(pipeline: str, timeout_s: float, cluster: ClusterSettings) -> int:
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        return await saved_step(logs, timeout_s)


async def saved_step(logs: PipelineLogs, timeout_s: float) -> int:
    """Ask for a checkpoint and wait for the step that is saved.

    Raises HaltedError or KcontrolError when the pipeline does not run, when it could not be saved, or not in time.
    """
    asked = await record_checkpoint(logs.control, logs.pipeline, logs.view.status())
    try:
        answer = await asyncio.wait_for(_answered(logs, asked), timeout_s)
    except TimeoutError:
        raise KcontrolError(_too_late(logs.view, timeout_s)) from None
    if answer.error:
        raise KcontrolError(answer.error)
    return answer.step


async def _answered(logs: PipelineLogs, asked: Recorded) -> CheckpointAnswer:
    """The answer to the request, or to one that somebody has made after it: what that saves is newer still."""
    key = key_of(CheckpointRequest(logs.pipeline, asked.request_id))
    async for chunk in logs.control.tail():
        logs.see_control(chunk)
        said, newest = logs.view.status(), logs.view.latest.get(key)
        wanted = {asked.request_id}
        if newest is not None and newest.offset > asked.offset and isinstance(newest.record, CheckpointRequest):
            wanted.add(newest.record.request_id)
        for answer in () if said is None else said.answers:
            if answer.request_id in wanted:
                return answer
    raise KcontrolError("the control topic ended")


def _too_late(view: PipelineView, timeout_s: float) -> str:
    said = view.status()
    why = [] if said is None else [text for text in (said.reason, said.checkpoint_failure) if text]
    return (
        f"pipeline {view.pipeline!r}: the request is recorded, but nothing was saved within {timeout_s:g} s; see that a "
        "coordinator and all nodes run (kcontrol status), and give a longer --timeout where there is much to copy"
        + "".join(f"; it says: {text}" for text in why)
    )
