"""`kcontrol layout --without` of a node whose host is lost."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kcontrol.apps.layout import LayoutPlan
from kcontrol.apps.lost_nodes import LostStarter, leave_out
from kcontrol.apps.new_processes import Starter
from kcontrol.cli.source import remembered_source
from kcontrol.core.model import Assignment, LayoutStatus
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home

start_option = click.option(
    "--start",
    "command",
    metavar="COMMAND",
    help="With --without, where that node's host is lost: start its number by COMMAND --node NODE --instead, without a shell; "
    "{node} in it is the number, {host} where it goes to. Default: kcontrol node, here, with the file that it was last run "
    "with on this machine.",
)


def lost_starter(
    pipeline: str,
    command: str | None,
    without: int | None,
    cluster: ClusterSettings,
    nodes_dir: Path,
    master: str | None,
) -> LostStarter:
    """What starts the number of a lost node. Raises ConfigurationError: the command is none, or of no use."""
    if command is not None and without is None:
        raise ConfigurationError("--start is for --without, of a node whose host is lost")
    logs = data_home() / "logs" / pipeline / "lost"
    if command is not None:
        starter = Starter(command, logs)
        starter.arguments(0, "--instead", "")
        return LostStarter(starter, direct=False)
    file = remembered_source(pipeline)
    if file is None:
        return LostStarter(None, direct=True)
    words = [
        sys.executable,
        "-m",
        "kcontrol.cli",
        "node",
        str(file),
        "--no-archive",
        "--work-dir",
        str(nodes_dir),
    ]
    words += ["--bootstrap-servers", cluster.bootstrap_servers, *(["--master", master] if master else [])]
    return LostStarter(Starter(shlex.join(words), logs), direct=True)


def leave_lost_out(
    cluster: ClusterSettings,
    plan: LayoutPlan,
    starts: LostStarter,
    timeout_ms: int,
    told: Callable[[LayoutStatus], None],
    as_json: bool,
) -> LayoutPlan:
    """The plan as it was carried out. told: how far the change is."""

    def tell(text: str, status: LayoutStatus | None) -> None:
        if status is not None:
            told(status)
        else:
            click.echo(json.dumps({"text": text}) if as_json else text, err=True)

    return asyncio.run(leave_out(cluster, plan, starts, timeout_ms, tell))


def lost_facts(plan: LayoutPlan) -> dict[str, Any] | None:
    """For machines."""
    lost = plan.lost
    if lost is None:
        return None
    return {
        "node": lost.node,
        "host": lost.host,
        "stays": lost.stays,
        "begins_at": lost.begins_at,
        "steps_again": lost.again,
    }


def lost_lines(plan: LayoutPlan, *, done: bool) -> list[str]:
    """For people."""
    lost = plan.lost
    if lost is None:
        return []
    was = f"  node {lost.node} ({lost.who}) said nothing"
    if not done:
        again = f", to run {lost.again} steps again behind step {lost.begins_at}" if lost.again else ""
        was = f"  node {lost.node} ({lost.who}) says nothing: its number is started elsewhere first{again}"
    if lost.stays:
        return [f"{was}; it stays there, and the process of node {lost.nodes - 1} ends"]
    return [f"{was}; it is left out then"] if not done else [was]


def say_left_out(made: Assignment, node: int | None, as_json: bool) -> None:
    """Of a change that is made already."""
    text = f"node {node} of pipeline {made.pipeline!r} was left out after step {made.step}: it has nodes = {made.nodes}"
    facts = {"pipeline": made.pipeline, "changed": False, "assignment": made.number, "after_step": made.step}
    click.echo(json.dumps({**facts, "nodes": made.nodes, "text": text}) if as_json else text)
