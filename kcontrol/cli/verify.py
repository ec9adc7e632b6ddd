"""`kcontrol verify`: run recorded steps again from nothing and compare every digest with the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from kcontrol.apps.recorded import recorded_steps
from kcontrol.apps.rerun import RerunTarget, range_options, refuse, run_again, verdict
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.cli.source import find_pipeline
from kcontrol.core.step.differences import Difference
from kcontrol.settings.cluster import ClusterSettings


@click.command()
@click.argument("pipeline")
@range_options("compare")
@cluster_option
@json_option
@debug_option
def verify(
    pipeline: str,
    first: int | None,
    last: int | None,
    master: str | None,
    own: Path,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Run the recorded steps of PIPELINE again in a scratch directory, write nothing, and compare with the
    log.

    PIPELINE is a name, if a node of it was last started on this machine, or the pipeline's file. Exit code 0
    only if every record count and digest agrees; 7 otherwise, and each difference is printed. Where there is
    state, steps before --from are run too, from the nearest checkpoint on, but not compared.

    \b
    Example:  kcontrol verify flights --from 100 --to 120
    """
    definition = find_pipeline(pipeline, as_json)

    def report(node: int, step: int, found: Sequence[Difference]) -> None:
        click.echo(verdict(node, step, found, as_json))

    async def run() -> list[Difference]:
        recorded = await recorded_steps(cluster, definition.name, first, last, own)
        return await run_again(
            definition, recorded, RerunTarget("verify", cluster, master, own, as_json), report
        )

    refuse(definition.name, asyncio.run(run()))
