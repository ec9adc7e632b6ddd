"""`kcontrol node`: one node of a pipeline, a Spark application of its own.

Here is what is asked for, and Spark is begun if it is all but sure to be needed: what the node imports besides takes as long as
a JVM takes to start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

import click

from kcontrol.apps.agent.placements import placement_of
from kcontrol.apps.presence import Presence
from kcontrol.apps.spark_start import SparkStart
from kcontrol.apps.supervisor.anew import has_begun_anew
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.apps.supervisor.watchdog import beats_option
from kcontrol.cli.node_number import given_to
from kcontrol.cli.options import (
    cluster_option,
    debug_option,
    json_option,
    listen_options,
    nodes_dir,
    nodes_option,
)
from kcontrol.cli.source import check_number, load_definition, remember_source, sized
from kcontrol.core.model import AgentPlacement
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings

Waits = Literal["", "standby", "new", "instead"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--node",
    "number",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Which of the pipeline's nodes.",
)
@nodes_option
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path),
    help="For Spark's state. Default: nodes/ in the user's data directory.",
)
@click.option("--master", metavar="URL", help="Spark master. Default: what spark-submit gave, else local[*].")
@click.option(
    "--create-outputs",
    type=click.IntRange(1),
    metavar="N",
    help="Create missing output topics, of N partitions.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Wait, with everything ready, until the number is free or its node silent.",
)
@click.option(
    "--new",
    is_flag=True,
    help="If the pipeline has no such node, wait until its layout is changed (kcontrol layout --nodes) so that it has.",
)
@click.option(
    "--instead",
    is_flag=True,
    help="Wait until this process is to be the node in place of another one (kcontrol upgrade, kcontrol layout --replace), or "
    "until that one has died.",
)
@click.option(
    "--archive/--no-archive",
    "archives",
    default=True,
    show_default=True,
    help="Archive Spark's Java classes in the background, as `kcontrol warm` does, if there is no archive.",
)
@click.option(
    "--number-from",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="With --standby, by agents: a file in which this process finds which node it is, once it is one.",
)
@click.option(
    "--placement",
    metavar="FOUNDED_MS/GENERATION",
    help="By which entry of the cluster's log an agent starts this node: one of an older entry does not replace it.",
)
@listen_options("this node's metrics and profiles", "metrics-", None)
@lifeline_option
@beats_option
@cluster_option
@json_option
@debug_option
def node(
    file: Path,
    number: int,
    nodes: int | None,
    work_dir: Path | None,
    master: str | None,
    create_outputs: int | None,
    standby: bool,
    new: bool,
    instead: bool,
    archives: bool,
    number_from: Path | None,
    placement: str | None,
    host: str,
    port: int | None,
    token_file: Path | None,
    beats: int | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Run one node of the pipeline that FILE defines until Ctrl-C. The first one to start submits the definition.

    While the pipeline is stopped (kcontrol stop) the process stands by, without Spark, and joins when it is
    to run again (kcontrol resume).

    With --standby it starts Spark, runs the last committed step again to warm up, and then waits: it takes
    the number as soon as its node has died on this machine, or has been silent for `heartbeat_timeout`. Once
    it is replaced itself it stands by again.

    When the layout is changed while the pipeline runs it goes on by that, whatever FILE says, or ends (exit code 20).

    \b
    Example:  kcontrol node flights.py --node 0 --bootstrap-servers broker:9092
              kcontrol node flights.py --node 0 --standby
    """
    anew = has_begun_anew()
    pipeline = sized(load_definition(file, master, as_json), nodes)
    given = given_to(number_from, standby=standby, serves=port is not None)
    number, standby = (number, standby) if given is None else (given.node, False)
    waits = waits_for(pipeline, number, standby=standby, new=new, instead=instead)
    remember_source(pipeline.name, file)
    placed = None if placement is None else placement_of(placement)
    placed = placed if given is None else given.placement
    where, spark = nodes_dir(work_dir), SparkStart(f"kcontrol {pipeline.name} node {number}", master)
    if not anew and begins_with_spark(where, pipeline.name, number, placed, waits):
        spark.begin()
    # The greater part of kcontrol, which nothing above needs.
    from kcontrol.apps.node_service import NodeOptions
    from kcontrol.cli.node_process import NodeAsked, run_node

    options = NodeOptions(*(number, where, create_outputs), placement=placed, number_from=number_from)
    asked = NodeAsked(pipeline, cluster, options, waits, archives, as_json)
    run_node(asked, spark, None if port is None else (host, port, token_file), beats)


def begins_with_spark(
    work_dir: Path, pipeline: str, number: int, placed: AgentPlacement | None, waits: Waits
) -> bool:
    """Whether it is all but sure that Spark is needed at once: for a node that some process has been here before, or that
    an agent has placed here, most often because its host has died. Who stands by lets that one go first."""
    return waits != "standby" and (placed is not None or Presence(work_dir, pipeline, number).known)


def waits_for(pipeline: Pipeline, number: int, **asked: bool) -> Waits:
    """What the process waits for before it is the node."""
    chosen = [name for name, is_asked in asked.items() if is_asked]
    if len(chosen) > 1:
        raise ConfigurationError(
            "--new waits for a place that nobody has, --instead for one that a request gives it, --standby for one whose node "
            "has died: say one"
        )
    if not {"new", "instead"} & {*chosen}:
        check_number(pipeline, number)
    return cast(Waits, chosen[0] if chosen else "")
