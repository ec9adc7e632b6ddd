"""`kcontrol status`, `steps` and `log`: look at a pipeline's logs and change nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

import click

from kcontrol.cli.input_facts import input_facts, input_line
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.cli.show import logged_json, logged_line, step_line, time_text
from kcontrol.cli.view import PipelineLogs, lags, pipeline_logs
from kcontrol.core.model import Logged, LoggedStep, StepBoundary
from kcontrol.errors import NotFoundError
from kcontrol.runtime.settings import ClusterSettings
from kcontrol.wire.json import to_json_line

follow_option = click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")


@click.command()
@click.argument("pipeline")
@cluster_option
@json_option
@debug_option
def status(pipeline: str, cluster: ClusterSettings, as_json: bool) -> None:
    """Print whether a pipeline runs, how far it is, what waits, and why it halted if it has.

    \b
    Example:  kcontrol status flights
    """
    facts = asyncio.run(_status(pipeline, cluster))
    if as_json:
        click.echo(json.dumps(facts))
        return
    click.echo(f"pipeline   {facts['pipeline']}: {facts['phase']} (wanted: {facts['desired']})")
    if facts["reason"]:
        click.echo(f"reason     {facts['reason']}")
    click.echo(f"committed  step {facts['step']}" + (f", {time_text(facts['step_ms'])}" if facts["step"] else ""))
    if facts["checkpoint"] or facts["checkpoint_failure"]:
        saved = f"step {facts['checkpoint']}" if facts["checkpoint"] else "nothing"
        click.echo(f"saved      {saved}" + (f"; {facts['checkpoint_failure']}" if facts["checkpoint_failure"] else ""))
    for waiting in facts["inputs"]:
        click.echo(f"input      {input_line(waiting)}")
    for each in facts["nodes"]:
        click.echo(
            f"node {each['node']:<5} {each['phase']}, step {each['step']}, heard of {each['silent_ms'] / 1000:.1f} s ago"
            + (f": {each['error']}" if each["error"] else "")
        )


async def _status(pipeline: str, cluster: ClusterSettings) -> dict[str, Any]:
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        said, desired = logs.view.status(), logs.view.desired()
        last = logs.committed.last
        return {
            "pipeline": pipeline,
            "phase": said.phase.value if said else "starting",
            "desired": desired.mode.value if desired else "running",
            "reason": said.reason if said else "no coordinator has looked after it yet",
            "step": logs.committed.step,
            "step_ms": last.now_ms if last else None,
            "checkpoint": logs.committed.checkpoint,
            "checkpoint_failure": said.checkpoint_failure if said else "",
            "claim_epoch": logs.view.epoch,
            "fingerprint": logs.spec().fingerprint,
            "inputs": [input_facts(logs.spec(), logs.committed, logs.view, lag.input, lag.offsets) for lag in lags(logs)],
            "nodes": [_node(logs, node) for node in range(logs.spec().nodes)],
        }


def _node(logs: PipelineLogs, node: int) -> dict[str, Any]:
    state, life = logs.view.node_state(node), logs.view.incarnation(node)
    heard = [logged.timestamp_ms for logged in logs.view.latest.values() if state is not None and logged.record is state] or [0]
    return {
        "node": node,
        "incarnation": life,
        "phase": state.phase.value if state else "absent",
        "step": state.step if state else 0,
        "silent_ms": max(0, round(time.time() * 1000) - heard[0]) if state else 0,
        "error": state.error if state else "",
    }


@click.command()
@click.argument("pipeline")
@click.option("--from", "first", type=click.IntRange(1), default=1, help="First step to print. Default: the first there is.")
@click.option("--to", "last", type=click.IntRange(1), help="Last step to print.")
@follow_option
@cluster_option
@json_option
@debug_option
def steps(pipeline: str, first: int, last: int | None, follow: bool, cluster: ClusterSettings, as_json: bool) -> None:
    """Print a pipeline's committed steps, one a line: what each read and wrote. --json prints the whole boundary.

    \b
    Example:  kcontrol steps flights --from 100 --to 120 --json
    """
    asyncio.run(_steps(pipeline, first, last, follow, cluster, as_json))


async def _steps(pipeline: str, first: int, last: int | None, follow: bool, cluster: ClusterSettings, as_json: bool) -> None:
    def show(chunk: Iterable[LoggedStep]) -> bool:
        """Print those that are asked for; whether there may be more of them."""
        for logged in chunk:
            boundary = logged.record
            if not isinstance(boundary, StepBoundary) or boundary.step < first:
                continue
            if last is not None and boundary.step > last:
                return False
            click.echo(to_json_line(boundary) if as_json else step_line(boundary))
            if boundary.step == last:
                return False
        return True

    async with pipeline_logs(cluster, pipeline) as logs:
        committed = await logs.read_steps(first, None if follow else last)
        if follow:
            if show(committed):
                async for chunk in logs.steps.tail():
                    if not show(chunk):
                        return
            return
        if logs.committed.step < (last or first) and (first > 1 or last is not None):
            raise NotFoundError(
                f"pipeline {pipeline!r} has no step {last or first} yet: it has committed {logs.committed.step}"
            )
        show(committed)


@click.command()
@click.argument("pipeline")
@follow_option
@cluster_option
@json_option
@debug_option
def log(pipeline: str, follow: bool, cluster: ClusterSettings, as_json: bool) -> None:
    """Print the control messages of a pipeline, decoded, in order.

    The control topic is compacted: of older messages only the newest of each key is left.

    \b
    Example:  kcontrol log flights --follow
    """
    asyncio.run(_log(pipeline, follow, cluster, as_json))


async def _log(pipeline: str, follow: bool, cluster: ClusterSettings, as_json: bool) -> None:
    def show(chunk: Iterable[Logged]) -> None:
        for logged in chunk:
            click.echo(logged_json(logged) if as_json else logged_line(logged))

    async with pipeline_logs(cluster, pipeline) as logs:
        records, _ = await logs.read()
        show(records)
        if follow:
            async for chunk in logs.control.tail():
                show(chunk)
