"""`kcontrol coordinator`: a Faust worker that looks after the pipelines of the partitions that it is assigned."""

from __future__ import annotations

import json
import os

import click

from kcontrol.adapters.faust.app import MIN_SESSION_TIMEOUT_S
from kcontrol.adapters.faust.worker import WorkerOptions, run_coordinator
from kcontrol.cli.facts import prepare_cluster
from kcontrol.cli.lifeline import lifeline_option
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.runtime.settings import ClusterSettings


@click.command()
@click.option(
    "--instance",
    metavar="NAME",
    help="Name of a static member: started again under it, it has its partitions back at once. One process a name.",
)
@click.option(
    "--session-timeout",
    "session_timeout_s",
    type=click.FloatRange(1.0, 300.0),
    default=MIN_SESSION_TIMEOUT_S,
    show_default=True,
    help="Seconds without a heartbeat after which another coordinator takes over.",
)
@lifeline_option
@cluster_option
@json_option
@debug_option
def coordinator(instance: str | None, session_timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Run a coordinator until Ctrl-C. Any number may run; Kafka shares the pipelines out among them.

    \b
    Example:  kcontrol coordinator --bootstrap-servers broker:9092
    """
    partitions = prepare_cluster(cluster)
    said = False

    def ready() -> None:
        nonlocal said
        if not said:
            facts = {"coordinator": "ready", "pid": os.getpid(), "bootstrap_servers": cluster.bootstrap_servers}
            click.echo(json.dumps(facts) if as_json else f"the coordinator is ready (pid {os.getpid()})")
            said = True

    run_coordinator(cluster, partitions, WorkerOptions(session_timeout_s, instance), ready)
