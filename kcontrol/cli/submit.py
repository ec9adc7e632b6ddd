"""`kcontrol submit`: a pipeline's definition in the log before any of its nodes runs, or on paper."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.session.build import session
from kcontrol.apps.agent.fitting import Nodes
from kcontrol.apps.agent.nodes import check_file
from kcontrol.apps.agent.placing import place_if_there_are_agents
from kcontrol.apps.agent.resizing import can_go_on_with, nodes_at_work, placed_job
from kcontrol.apps.before_spark import check_before_spark
from kcontrol.apps.phases import LOOKING, PLANNING, STARTING_SPARK, phase
from kcontrol.apps.submit import resolve
from kcontrol.apps.submit import submit as submit_definition
from kcontrol.cli.code import include_option, package_option, packed, requirements_option, sign_option
from kcontrol.cli.node_range import asked_nodes, nodes_range_options
from kcontrol.cli.options import cluster_option, debug_option, json_option, standbys_option
from kcontrol.cli.source import load_definition, sized
from kcontrol.cli.tags import tags_option
from kcontrol.core.model import PipelineSpec
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.json import to_json_line


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@nodes_range_options(
    None, "How many nodes the pipeline has, whatever FILE says. All its nodes must be given the same."
)
@click.option(
    "--create-outputs",
    type=click.IntRange(1),
    metavar="N",
    help="Create missing output topics, of N partitions.",
)
@click.option(
    "--print",
    "only_print",
    is_flag=True,
    help="Print the definition as JSON instead, for POST .../spec over HTTP.",
)
@click.option(
    "--place/--no-place",
    "place",
    default=None,
    help="Have agents run its nodes (kcontrol place FILE). Default: if there are agents.",
)
@click.option(
    "--host-file",
    metavar="PATH",
    help="Where FILE is on the hosts, below the agents' --files. Default: its name.",
)
@tags_option
@standbys_option
@package_option
@include_option
@requirements_option
@sign_option
@cluster_option
@json_option
@debug_option
def submit(
    file: Path,
    nodes: Nodes | None,
    percentage: int | None,
    create_outputs: int | None,
    only_print: bool,
    place: bool | None,
    host_file: str | None,
    tags: tuple[str, ...] | None,
    standbys: int | None,
    with_code: bool,
    included: tuple[Path, ...],
    requirements: Path | None,
    key: Path | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Submit the pipeline that FILE defines. Where there are agents (kcontrol agent), they run its nodes, as
    `kcontrol place` has them do; elsewhere nothing is started. Nodes that are started submit by themselves.

    \b
    Example:  kcontrol submit flights.py --bootstrap-servers broker:9092
              kcontrol submit flights.py --nodes 3 --standby 1
              kcontrol submit flights.py --nodes 2..8
    """
    if with_code and host_file is not None:
        raise ConfigurationError(
            "--host-file is for a file that the hosts have, and --package for one that they are given"
        )
    if (standbys or tags) and place is False:
        raise ConfigurationError(
            "--standby and --tags are for agents, and --no-place for whoever starts nodes himself"
        )
    code = packed(file, with_code, included, requirements, key) or check_file(host_file or file.name)
    asked = asked_nodes(nodes, percentage)
    follows = asked is not None and asked.follows
    if follows and (place is False or only_print):
        raise ConfigurationError(
            "--nodes LEAST..MOST is for agents, which run what is submitted: say a number"
        )
    pipeline = _sized(load_definition(file, None, as_json), asked, cluster)
    as_it_runs = pipeline if only_print or place is False else asyncio.run(_as_it_runs(pipeline, cluster))
    spec = asyncio.run(_submit(as_it_runs, cluster, create_outputs, only_print, as_json))
    if only_print:
        click.echo(to_json_line(spec))
        return
    wanted = pipeline.nodes if as_it_runs is not pipeline else spec.nodes
    placing = place_if_there_are_agents(
        *(cluster, spec.pipeline, asked if follows and asked else wanted, code),
        *(True if follows else place, standbys, tags),
    )
    made = asyncio.run(placing)
    what = [] if made is None else list(made.changes)
    facts = {"pipeline": spec.pipeline, "fingerprint": spec.fingerprint, "nodes": spec.nodes, "placed": what}
    text = "; ".join([f"pipeline {spec.pipeline}: {spec.fingerprint} is in the log", *what])
    click.echo(json.dumps(facts) if as_json else text)


def _sized(pipeline: Pipeline, asked: Nodes | None, cluster: ClusterSettings) -> Pipeline:
    """With as many nodes as it begins with."""
    if asked is None or not asked.follows:
        return sized(pipeline, None if asked is None else asked.least)
    return sized(pipeline, asked.to_begin_with(asyncio.run(placed_job(cluster, pipeline.name))))


async def _as_it_runs(pipeline: Pipeline, cluster: ClusterSettings) -> Pipeline:
    """With as many nodes as it has: where agents run it, they are asked for another number, and it goes on meanwhile."""
    if await placed_job(cluster, pipeline.name) is None:
        return pipeline
    now = await nodes_at_work(cluster, pipeline.name)
    if now in (0, pipeline.nodes) or not await can_go_on_with(cluster, pipeline.name, pipeline.nodes):
        return pipeline
    return pipeline.with_nodes(now)


async def _submit(
    pipeline: Pipeline,
    cluster: ClusterSettings,
    output_partitions: int | None,
    only_print: bool,
    as_json: bool,
) -> PipelineSpec:
    find_java()
    with phase(LOOKING, as_json):
        await check_before_spark(cluster, pipeline, makes_outputs=output_partitions is not None)
    with phase(STARTING_SPARK, as_json):
        spark = await asyncio.to_thread(session, f"kcontrol submit {pipeline.name}", None, hushed=True)
    host = ChannelEndpoint(spark, cluster)
    try:
        with phase(PLANNING, as_json):
            bound = await asyncio.to_thread(bind, pipeline, spark, host.channel.address)
        for warning in bound.warnings:
            click.echo(warning, err=True)
        take = resolve if only_print else submit_definition
        facts = (bound.facts(), bound.exchanges)
        return await take(cluster, pipeline, *facts, output_partitions=output_partitions)
    finally:
        host.close()
        spark.stop()
