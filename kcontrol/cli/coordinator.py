"""`kcontrol coordinator`: a Faust worker that looks after the pipelines of the
partitions that it is assigned."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path

import click

from kcontrol.adapters.faust.app import MIN_SESSION_TIMEOUT_S
from kcontrol.adapters.faust.assignor import DEFAULT_SETTLE_S
from kcontrol.adapters.kafka.admin.topic_safety import safety_now
from kcontrol.adapters.metrics.coordinators import CoordinatorMetrics
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.apps.agent.following import AgentsFollower
from kcontrol.apps.coordinator_worker import WorkerOptions, run_coordinator
from kcontrol.apps.facts import prepare_cluster
from kcontrol.apps.projection_source import KafkaProjectionSource
from kcontrol.apps.regions.following import RegionsFollower
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.apps.supervisor.watchdog import Watchdog, beats_option
from kcontrol.cli.listening import listen
from kcontrol.cli.options import cluster_option, debug_option, json_option, listen_options
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.cluster_projection import Blocked

_log = logging.getLogger("kcontrol.coordinator")


@click.command()
@click.option(
    "--instance",
    metavar="NAME",
    help="Name of a static member: started again under it, it has its partitions back at once. One process "
    "a name.",
)
@click.option(
    "--session-timeout",
    "session_timeout_s",
    type=click.FloatRange(1.0, 300.0),
    default=MIN_SESSION_TIMEOUT_S,
    show_default=True,
    help="Seconds without a heartbeat after which another coordinator takes over.",
)
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(0.0, 86_400.0),
    default=DEFAULT_SETTLE_S,
    show_default=True,
    help="Seconds after its start before it takes pipelines from coordinators that are at work.",
)
@listen_options("the REST interface and metrics in this process", "http-", None)
@lifeline_option
@beats_option
@cluster_option
@json_option
@debug_option
def coordinator(
    instance: str | None,
    session_timeout_s: float,
    settle_s: float,
    host: str,
    port: int | None,
    token_file: Path | None,
    beats: int | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Run a coordinator until Ctrl-C. Any number may run; Kafka shares the pipelines out among them.

    \b
    Example:  kcontrol coordinator --bootstrap-servers broker:9092
    """
    Watchdog(beats=beats)
    listener = None if port is None else listen(host, port, token_file)
    partitions = prepare_cluster(cluster)
    for sentence in safety_now(cluster, None).sentences:
        _log.warning("unsafe: %s", sentence)
    assigned = FirstAssignment()

    def ready() -> None:
        if not assigned.is_set():
            assigned.set()
            facts = {
                "coordinator": "ready",
                "pid": os.getpid(),
                "bootstrap_servers": cluster.bootstrap_servers,
            }
            text = f"the coordinator is ready (pid {os.getpid()})"
            if listener is not None:
                facts["serve"] = listener.url
                text += f", serving {listener.url}/v1, with the Console at {listener.url}/"
            click.echo(json.dumps(facts) if as_json else text)

    if listener is None:
        run_coordinator(cluster, partitions, WorkerOptions(session_timeout_s, instance, settle_s), ready)
        return
    # Whoever serves nothing need not wait for the libraries of a server.
    from kcontrol.apps.http_server import serve_interface

    registry = make_registry()
    options = WorkerOptions(session_timeout_s, instance, settle_s, observer=CoordinatorMetrics(registry))
    source = KafkaProjectionSource(cluster)
    agents, regions = AgentsFollower(cluster), RegionsFollower(cluster)
    with listener.in_thread(
        lambda: serve_interface(
            listener, cluster, source, registry, [assigned.check], agents=agents, regions=regions
        )
    ):
        run_coordinator(cluster, partitions, options, ready)


class FirstAssignment(threading.Event):
    """Set once the group has told this coordinator its partitions, be it none."""

    def __init__(self) -> None:
        super().__init__()
        self._since_ms = time.time_ns() // 1_000_000

    def check(self) -> list[Blocked]:
        """For /health/ready."""
        return [] if self.is_set() else [Blocked("joining the group of coordinators", self._since_ms, "")]
