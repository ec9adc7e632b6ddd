"""`kcontrol checkpoint`: have the pipeline's state saved now, and wait until it is."""

from __future__ import annotations

import asyncio
import json

import click

from kcontrol.apps.ask import ask_checkpoint
from kcontrol.cli.desired import timeout_option
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.settings.cluster import ClusterSettings


@click.command()
@click.argument("pipeline")
@timeout_option
@cluster_option
@json_option
@debug_option
def checkpoint(pipeline: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Save the state of all nodes now, without stopping the steps; answers with the step that is saved.

    \b
    Example:  kcontrol checkpoint flights
    """
    step = asyncio.run(ask_checkpoint(cluster, pipeline, timeout_s))
    click.echo(
        json.dumps({"pipeline": pipeline, "step": step})
        if as_json
        else f"pipeline {pipeline}: saved at step {step}"
    )
