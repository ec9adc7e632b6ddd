"""`kcontrol repair`: what a log of steps records twice, and the way on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from kcontrol.apps.ask import ask_mode
from kcontrol.apps.repair import accept_doubles, find_doubles
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.core.model import DesiredMode
from kcontrol.errors import HaltedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.doubles import Twice


@click.command()
@click.argument("pipeline")
@click.option(
    "--accept", is_flag=True, help="Go on with what is listed: the newest record of each step counts."
)
@cluster_option
@json_option
@debug_option
def repair(pipeline: str, accept: bool, cluster: ClusterSettings, as_json: bool) -> None:
    """Show the steps and checkpoints that the log of steps records twice, and what readers have seen of each.

    A pipeline whose log holds such a record halts. Look at what is listed and put right downstream what has
    to be: records of a void step are in the outputs and stay there. With --accept the pipeline then goes on
    after the newest record of the last step. Ends with code 9 while there is something that is not accepted.

    \b
    Example:  kcontrol repair flights
              kcontrol repair flights --accept
    """
    found = asyncio.run(find_doubles(cluster, pipeline))
    new = [each for each in found if not each.accepted]
    for each in found:
        click.echo(json.dumps(_facts(each)) if as_json else _lines(each))
    if not found and not as_json:
        click.echo(f"pipeline {pipeline}: nothing is recorded twice")
    if new and not accept:
        raise HaltedError(
            f"pipeline {pipeline!r} makes no step until this is accepted: kcontrol repair {pipeline} --accept"
        )
    if new:
        asyncio.run(accept_doubles(cluster, pipeline, new))
        said = asyncio.run(ask_mode(cluster, pipeline, DesiredMode.RUNNING))
        if not as_json:
            click.echo(f"pipeline {pipeline}: accepted; {said.phase.value} at step {said.step}")


def _facts(twice: Twice) -> dict[str, Any]:
    double = twice.double
    void = [
        {
            "step": one.step,
            "boundary_offset": one.offset,
            "written": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "from": each.from_,
                    "to": each.to,
                    "records": each.records,
                }
                for each in one.written
            ],
        }
        for one in twice.void
    ]
    return {
        "kind": double.kind,
        "step": double.step,
        "again_at": double.offset,
        "accepted": twice.accepted,
        "void": void,
    }


def _lines(twice: Twice) -> str:
    double = twice.double
    done = " (accepted)" if twice.accepted else ""
    lines = [f"{double.kind} {double.step} is recorded again at offset {double.offset}{done}"]
    for one in twice.void:
        lines.append(f"  void: step {one.step}, recorded at offset {one.offset}; readers have seen")
        lines += [
            (
                f"    {each.records:,} records at offsets {each.from_} to {each.to - 1} of {each.topic}, "
                f"partition {each.partition}"
            )
            for each in one.written
        ] or ["    nothing: it wrote no records"]
    return "\n".join(lines)
