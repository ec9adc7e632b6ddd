"""`kcontrol upgrade`: new processes in place of those that are a pipeline's nodes, one at a time, while it runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.apps.live_layout import withdraw as withdraw_live
from kcontrol.apps.new_processes import Starter
from kcontrol.apps.upgrade import UpgradeAsked
from kcontrol.apps.upgrade import upgrade as upgrade_live
from kcontrol.cli.layout import Duration, progress, progress_text
from kcontrol.cli.options import cluster_option, debug_option, json_option, nodes_dir, work_dir_option
from kcontrol.core.model import LayoutStatus, UpgradeWay
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home


@click.command()
@click.argument("pipeline")
@click.option(
    "--way",
    type=click.Choice([way.value for way in UpgradeWay]),
    help="in-place: by a process on the same host, in the same directory; nothing is copied. replace: by one on any host; what "
    "the node has is copied there.",
)
@click.option(
    "--node",
    "nodes",
    type=click.IntRange(0),
    multiple=True,
    help="Upgrade this node. Repeatable; in this order. Default: all of them.",
)
@click.option(
    "--start",
    "command",
    metavar="COMMAND",
    help="Start the new processes here: COMMAND --node N --instead, without a shell, {node} in it is the number. Default: you "
    "start them, when you are told to or before.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=Duration(),
    default="15 min",
    show_default=True,
    metavar="DURATION",
    help="For each node: if its new process is not ready by then, it stays what it is, and this ends.",
)
@click.option(
    "--settle",
    "settle_ms",
    type=Duration(),
    default="5 min",
    show_default=True,
    metavar="DURATION",
    help="After each node: if not all nodes are in place by then, and --steps made, this ends.",
)
@click.option(
    "--steps",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="After each node, wait for so many steps, as long as there is input.",
)
@click.option("--withdraw", is_flag=True, help="Give up what was asked for before, and is not made yet.")
@work_dir_option
@cluster_option
@json_option
@debug_option
def upgrade(
    pipeline: str,
    way: str | None,
    nodes: tuple[int, ...],
    command: str | None,
    timeout_ms: int,
    settle_ms: int,
    steps: int,
    withdraw: bool,
    work_dir: Path | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Put new processes in place of a running pipeline's nodes, one node at a time, while it makes steps: with new code,
    another environment, or another version of kcontrol. Coordinators first.

    For each node a new process starts Spark beside the old one, which makes steps meanwhile; between two steps it takes its
    place, and the old one ends (exit code 20). Before the next one all nodes have to be in place and to have made steps.

    Ended or killed at any point, give it again: it goes on with the node that it was at. What was asked for last goes on by
    itself; --withdraw gives it up. To go back, give it with processes of the old version. Of a stopped pipeline there is
    nothing to be done: start its nodes with the new code.

    \b
    Example:  kcontrol upgrade flights --way in-place --start "/opt/new/bin/kcontrol node flights.py"
    """
    if withdraw:
        asyncio.run(withdraw_live(cluster, pipeline))
        return
    if way is None:
        raise ConfigurationError("say --way: in-place or replace")
    starter = None if command is None else Starter(command, data_home() / "logs" / pipeline / "upgrade")
    if starter is not None:
        starter.arguments(0)
    own = own_checkpoints(nodes_dir(work_dir))
    asked = UpgradeAsked(
        *(cluster, pipeline, UpgradeWay(way), nodes, timeout_ms, settle_ms, steps, own), starter=starter
    )

    def tell(text: str, status: LayoutStatus | None) -> None:
        if as_json:
            facts = {"text": text} if status is None else progress(status)
            click.echo(json.dumps(facts), err=True)
        else:
            click.echo(text if status is None else progress_text(pipeline, status), err=True)

    done = asyncio.run(upgrade_live(asked, tell))
    if as_json:
        click.echo(json.dumps({"pipeline": pipeline, "way": way, "nodes": [asdict(each) for each in done]}))
    else:
        click.echo(f"pipeline {pipeline}: upgraded node {', '.join(str(each.node) for each in done)}")
