"""`kcontrol list`: all pipelines of a cluster, a line each."""

from __future__ import annotations

import asyncio

import click

from kcontrol.apps.look import names, status_once
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.errors import AccessError, DamagedRecordError, KcontrolError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus

AT_A_TIME = 8
"""So many pipelines are looked at together."""


@click.command(name="list")
@cluster_option
@json_option
@debug_option
def list_all(cluster: ClusterSettings, as_json: bool) -> None:
    """Print all pipelines of the cluster, one a line: phase, last step, what waits. Ends with 1 if one can't
    be shown.

    \b
    Example:  kcontrol list
    """
    print_list(cluster, as_json)


def print_list(cluster: ClusterSettings, as_json: bool) -> None:
    """What `kcontrol list` prints."""
    found = asyncio.run(_look_at_all(cluster))
    if not found and not as_json:
        click.echo("no pipeline was ever submitted to this cluster: kcontrol run FILE.py")
    width = max((len(name) for name, _ in found), default=0)
    for name, facts in found:
        if isinstance(facts, str):
            click.echo(facts, err=True)
        elif as_json:
            click.echo(facts.model_dump_json(by_alias=True))
        else:
            waiting = sum(each.waiting for each in facts.inputs)
            why = f"; {facts.reason}" if facts.reason else ""
            click.echo(
                f"{name:<{width}}  {facts.phase:<8}  step {facts.step:,}, {waiting:,} offsets wait{why}"
            )
    hidden = sum(isinstance(facts, str) for _, facts in found)
    if hidden:
        raise KcontrolError(f"{hidden} of {len(found)} pipelines can't be shown, for the reasons above")


async def _look_at_all(cluster: ClusterSettings) -> list[tuple[str, PipelineStatus | str]]:
    turn = asyncio.Semaphore(AT_A_TIME)

    async def look(name: str) -> tuple[str, PipelineStatus | str]:
        async with turn, pipeline_logs(cluster, name) as logs:
            try:
                return name, await status_once(logs, cluster)
            except (DamagedRecordError, TopicError, AccessError) as error:
                return name, f"pipeline {name!r} can't be shown: {error}"

    return list(await asyncio.gather(*(look(name) for name in await names(cluster))))
