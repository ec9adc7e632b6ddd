"""`kcontrol list`: all pipelines of a cluster, a line each; and what one of them is like, looked at once."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches

import click

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.kept import kept_now
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.read.input_ends import input_reaches
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.apps.projection_source import KafkaProjectionSource
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.core.log.definitions import definitions
from kcontrol.errors import AccessError, DamagedRecordError, KcontrolError, NotFoundError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus, status_of

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


async def status_once(logs: PipelineLogs, cluster: ClusterSettings) -> PipelineStatus:
    """How a pipeline is now, by its logs, by who is heard of, and by what Kafka says of its inputs."""
    clock = SystemClock()
    try:
        await logs.read()
    except NotFoundError as error:
        close = get_close_matches(logs.pipeline, await names(cluster), 1)
        raise NotFoundError(f"{error}" + (f". Did you mean {close[0]!r}?" if close else "")) from error
    topics = {item.topic for item in logs.spec().inputs}
    asking = asyncio.to_thread(kept_now, cluster, topics)
    _, ends, logs.kept = await asyncio.gather(logs.listen(clock), input_reaches(cluster, logs.spec()), asking)
    logs.see_ends(ends, None)
    return status_of(logs, clock.now_ms())


async def names(cluster: ClusterSettings) -> list[str]:
    """Of all pipelines that were submitted and not deleted, sorted. Raises TopicError
    when kcontrol was never used here."""
    source = KafkaProjectionSource(cluster)
    count = await source.partitions()
    return sorted(
        {
            name
            for part in await asyncio.gather(*(_names_in(source, n) for n in range(count)))
            for name in part
        }
    )


async def _names_in(source: KafkaProjectionSource, partition: int) -> set[str]:
    log: KafkaControlLog = await source.control(partition)
    try:
        return set(definitions(await log.read_to_end()))
    finally:
        await log.close()


async def _look_at_all(cluster: ClusterSettings) -> list[tuple[str, PipelineStatus | str]]:
    turn = asyncio.Semaphore(AT_A_TIME)

    async def look(name: str) -> tuple[str, PipelineStatus | str]:
        async with turn, pipeline_logs(cluster, name) as logs:
            try:
                return name, await status_once(logs, cluster)
            except (DamagedRecordError, TopicError, AccessError) as error:
                return name, f"pipeline {name!r} can't be shown: {error}"

    return list(await asyncio.gather(*(look(name) for name in await names(cluster))))
