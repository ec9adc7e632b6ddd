"""`kcontrol cut`: the newest moment at which several pipelines agree."""

from __future__ import annotations

import asyncio
import json

import click

from kcontrol.apps.cuts import CutStep, find_cut
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.errors import NotFoundError
from kcontrol.settings.cluster import ClusterSettings


@click.command()
@click.argument("pipelines", nargs=-1, required=True)
@click.option(
    "--steps",
    "most_steps",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="Look at so many of the newest steps of each pipeline.",
)
@cluster_option
@json_option
@debug_option
def cut(pipelines: tuple[str, ...], most_steps: int, cluster: ClusterSettings, as_json: bool) -> None:
    """Find the newest step of each of PIPELINES between which nothing is in flight: each has read exactly to the end of what
    the others among them had written by their steps.

    What they wrote up to these steps belongs together: it is what their outer input before it leads to, and nothing else. It is
    found in the logs alone; nobody is held for it. Exit code 10 where the steps that were looked at hold no such moment, as
    of pipelines that do not keep up with each other.

    \b
    Example:  kcontrol cut enrich totals alerts
    """
    names = tuple(dict.fromkeys(pipelines))
    found = asyncio.run(find_cut(cluster, names, most_steps))
    if found is None:
        raise NotFoundError(
            f"pipelines {', '.join(names)}: among the newest {most_steps} steps of each there are none between which "
            "nothing is in flight: a reader is behind, or takes parts of what a step wrote (max_records). Ask again "
            "once they have caught up"
        )
    if as_json:
        for each in found:
            click.echo(json.dumps(_facts(each)))
        return
    for each in found:
        behind = each.newest - each.boundary.step
        since = "its newest" if behind == 0 else f"{behind} before its newest"
        click.echo(f"pipeline {each.pipeline}: step {each.boundary.step}, {since}")


def _facts(each: CutStep) -> dict[str, object]:
    return {
        "pipeline": each.pipeline,
        "step": each.boundary.step,
        "newest": each.newest,
        "now_ms": each.boundary.now_ms,
        "committed_ms": each.boundary.committed_ms,
    }
