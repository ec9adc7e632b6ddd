"""`kcontrol region-controller`: a process that looks after regions."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import click

from kcontrol.adapters.kafka.admin.cluster import check_cluster
from kcontrol.apps.regions.controller import RegionController
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.sessions.region import RegionTimes
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import check_region_name


@click.command()
@click.argument("regions", nargs=-1)
@click.option(
    "--silence",
    "silence_s",
    type=click.FloatRange(4.0, 600.0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Take a region over whose controller has said nothing for so long.",
)
@lifeline_option
@cluster_option
@json_option
@debug_option
def region_controller(
    regions: tuple[str, ...], silence_s: float, cluster: ClusterSettings, as_json: bool
) -> None:
    """Look after REGIONS, or after all that are defined, until Ctrl-C: drain them when it is time or somebody asks, and keep
    their cuts. Any number may run; one is in charge of a region, the others stand by.

    \b
    Example:  kcontrol region-controller
    """
    names = tuple(map(check_region_name, regions))

    def ready() -> None:
        facts = {
            "region_controller": "ready",
            "pid": os.getpid(),
            "bootstrap_servers": cluster.bootstrap_servers,
        }
        click.echo(json.dumps(facts) if as_json else f"the region controller is ready (pid {os.getpid()})")

    async def run() -> None:
        await check_cluster(cluster)
        controller = RegionController(cluster, names, RegionTimes(silence_ms=round(silence_s * 1000)))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, controller.stop)
        await controller.run(ready)

    asyncio.run(run())
