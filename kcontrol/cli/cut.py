"""`kcontrol cut`: the newest moment at which several pipelines agree."""

from __future__ import annotations

import asyncio
import json

import click

from kcontrol.apps.cuts import CutStep, find_cut
from kcontrol.apps.drain import drain
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
@click.option(
    "--drain",
    "drains",
    is_flag=True,
    help="Hold each for a moment, so that there is one now: as long as its readers take to know where to stop.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 3_600),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="With --drain: give up after so long; none is held then.",
)
@cluster_option
@json_option
@debug_option
def cut(
    pipelines: tuple[str, ...],
    most_steps: int,
    drains: bool,
    timeout_s: float,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Find the newest step of each of PIPELINES between which nothing is in flight: each has read exactly to the end of what
    the others among them had written by their steps.

    What they wrote up to these steps belongs together: it is what their outer input before it leads to, and nothing else. It is
    found in the logs alone; nobody is held for it. Exit code 10 where the steps that were looked at hold no such moment, as
    of pipelines that do not keep up with each other.

    With --drain they are brought to one: a pipeline is held at the end of a step until its readers know how far it has
    written, and these read so far and no further before they stand themselves. Exit code 3 if that takes too long.

    \b
    Examples:  kcontrol cut enrich totals alerts
               kcontrol cut enrich totals alerts --drain --timeout 60
    """
    names = tuple(dict.fromkeys(pipelines))
    if drains:
        made = asyncio.run(drain(cluster, names, timeout_s))
        found: tuple[CutStep, ...] | None = tuple(
            CutStep(one.pipeline, one.boundary, one.newest) for one in made
        )
    else:
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
