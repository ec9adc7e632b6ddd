"""`kcontrol upgrade`: new processes in place of those that are a pipeline's nodes, one after the other, while it runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.apps.new_processes import Starter
from kcontrol.apps.upgrade import upgrade as upgrade_live
from kcontrol.apps.upgrade import withdraw_upgrade
from kcontrol.apps.upgrade_turn import UpgradeAsked
from kcontrol.cli.layout import Duration, progress, progress_text
from kcontrol.cli.options import cluster_option, debug_option, json_option, nodes_dir, work_dir_option
from kcontrol.core.model import LayoutStatus, UpgradeWay
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home
from kcontrol.views.upgrades import REPLACING


@click.command()
@click.argument("pipeline")
@click.option(
    "--way",
    type=click.Choice([way.value for way in UpgradeWay]),
    help="in-place: by a process on the same host, in the same directory; nothing is copied. replace: by one on any host; what "
    "the node has is copied there. out-in: a new node is added, an old one removed, and so on. in-out: the other order, where "
    "there is no host to spare.",
)
@click.option(
    "--node",
    "nodes",
    type=click.IntRange(0),
    multiple=True,
    help="Upgrade this node. Repeatable; in this order. Default: all of them.",
)
@click.option(
    "--together",
    is_flag=True,
    help="Of in-place and replace: all of them between the same two steps, so that none is made by old and new processes. All "
    "new processes have to be ready before.",
)
@click.option(
    "--start",
    "command",
    metavar="COMMAND",
    help="Start the new processes here: COMMAND --node N --instead, or --new for one that is added, without a shell; {node} in "
    "it is the number, {host} where it goes to. Default: you start them, when you are told to or before.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="For {host}: where a process goes that is added, or replaces a node elsewhere. Repeatable; in this order. Others go "
    "where a node is already.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=Duration(),
    default="15 min",
    show_default=True,
    metavar="DURATION",
    help="For each change: if its new process is not ready by then, all stays as it is, and this ends.",
)
@click.option(
    "--settle",
    "settle_ms",
    type=Duration(),
    default="5 min",
    show_default=True,
    metavar="DURATION",
    help="After each change: if not all nodes are in place by then, and --steps made, this ends.",
)
@click.option(
    "--steps",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="After each change, wait for so many steps, as long as there is input.",
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
    together: bool,
    command: str | None,
    hosts: tuple[str, ...],
    timeout_ms: int,
    settle_ms: int,
    steps: int,
    withdraw: bool,
    work_dir: Path | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Put new processes in place of a running pipeline's nodes, one after the other, while it makes steps: with new code,
    another environment, or another version of kcontrol. Coordinators first.

    For each node a new process starts Spark beside the old one, which makes steps meanwhile; between two steps it takes its
    place, and the old one ends (exit code 20). Before the next one all nodes have to be in place and to have made steps.
    With out-in there is a node more meanwhile, on another host, and with in-out one less. With --together all change places
    between the same two steps.

    Ended or killed at any point, give it again: it goes on with what it was at. What was asked for last goes on by
    itself; --withdraw gives it up. To go back, give it with processes of the old version. Of a stopped pipeline there is
    nothing to be done: start its nodes with the new code.

    \b
    Example:  kcontrol upgrade flights --way in-place --start "/opt/new/bin/kcontrol node flights.py"
    """
    if withdraw:
        left = asyncio.run(withdraw_upgrade(cluster, pipeline))
        if left:
            click.echo(left, err=True)
        return
    if way is None:
        raise ConfigurationError(f"say --way: {', '.join(each.value for each in UpgradeWay)}")
    starter = None if command is None else Starter(command, data_home() / "logs" / pipeline / "upgrade")
    if starter is not None:
        starter.arguments(0, "--instead", "")
    if together and UpgradeWay(way) not in REPLACING:
        raise ConfigurationError(
            f"--together is of --way in-place and replace: with {way} a node is added or removed at a time"
        )
    own = own_checkpoints(nodes_dir(work_dir))
    asked = UpgradeAsked(
        *(cluster, pipeline, UpgradeWay(way), nodes, timeout_ms, settle_ms, steps, own),
        starter=starter,
        hosts=hosts,
        together=together,
    )

    done = asyncio.run(upgrade_live(asked, partial(_tell, pipeline, as_json)))
    if as_json:
        click.echo(json.dumps({"pipeline": pipeline, "way": way, "nodes": [asdict(each) for each in done]}))
    else:
        made = ", ".join(f"{each.node} {each.change}" for each in done)
        click.echo(f"pipeline {pipeline}: upgraded (node {made})")


def _tell(pipeline: str, as_json: bool, text: str, status: LayoutStatus | None) -> None:
    if as_json:
        facts = {"text": text} if status is None else progress(status)
        click.echo(json.dumps(facts), err=True)
    else:
        click.echo(text if status is None else progress_text(pipeline, status), err=True)
