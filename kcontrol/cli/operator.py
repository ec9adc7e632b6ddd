"""`kcontrol operator`: custom resources of Kubernetes, carried out."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.adapters.kafka.admin.cluster import check_cluster
from kcontrol.apps.kubernetes.operator import KubernetesOperator, OperatorTimes
from kcontrol.apps.regions.rollbacks import rollbacks_of
from kcontrol.cli.options import cluster_option, debug_option, json_option, nodes_dir
from kcontrol.requests.region_rollbacks import no_rollbacks
from kcontrol.settings.cluster import ClusterSettings

_DEFAULTS = OperatorTimes()


@click.command()
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Look at this namespace's resources; may be repeated. Default: at all that its account sees.",
)
@click.option(
    "--resync",
    "resync_s",
    type=click.FloatRange(1.0, 3600.0),
    default=_DEFAULTS.resync_s,
    show_default=True,
    metavar="SECONDS",
    help="Read all resources anew so often although no news of them has come.",
)
@click.option(
    "--request-timeout",
    "request_s",
    type=click.FloatRange(1.0, 300.0),
    default=_DEFAULTS.request_s,
    show_default=True,
    metavar="SECONDS",
    help="Give up a request to Kubernetes after so long, and try again.",
)
@click.option(
    "--liveness",
    metavar="URL",
    help="Answer GET at this URL, such as http://0.0.0.0:8482/healthz. Default: nothing is served.",
)
@click.option(
    "--allow-resets",
    is_flag=True,
    help="Let resources take the pipelines of a region back to a cut (rollbackRequest): steps after it are void then.",
)
@cluster_option
@json_option
@debug_option
def operator(
    namespaces: tuple[str, ...],
    resync_s: float,
    request_s: float,
    liveness: str | None,
    allow_resets: bool,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Carry out what resources of the kinds Pipeline, ConsistentRegion and ConsistentRegionOperator say, until Ctrl-C, and
    show in their status what Kafka says. It holds nothing: run one, and start it again whenever it ends. Kubernetes is found by
    the service account of its pod, or by KUBECONFIG.

    \b
    Example:  kcontrol operator --namespace kcontrol
    """

    def ready() -> None:
        facts = {"operator": "ready", "pid": os.getpid(), "namespaces": list(namespaces)}
        click.echo(json.dumps(facts) if as_json else f"the operator is ready (pid {os.getpid()})")

    async def run() -> None:
        await check_cluster(cluster)
        times = OperatorTimes(resync_s=resync_s, request_s=request_s)
        rollbacks = rollbacks_of(cluster, own_checkpoints(nodes_dir(None))) if allow_resets else no_rollbacks
        working = KubernetesOperator(cluster, namespaces, times, rollbacks)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.stop)
        await working.run(ready, liveness)

    asyncio.run(run())
