"""`kcontrol pause-input`, `resume-input` and `skip`: what single inputs of a pipeline give to its steps."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import socket

import click

from kcontrol.apps.ask import ask_input, ask_skip
from kcontrol.cli.desired import timeout_option
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.settings.cluster import ClusterSettings


@click.command("pause-input")
@click.argument("pipeline")
@click.argument("input_name", metavar="INPUT")
@timeout_option
@cluster_option
@json_option
@debug_option
def pause_input(
    pipeline: str, input_name: str, timeout_s: float, cluster: ClusterSettings, as_json: bool
) -> None:
    """Read nothing of INPUT in any step from now on; the other inputs go on. Lasts until
    resume-input, over restarts too.

    \b
    Example:  kcontrol pause-input flights planes
    """
    _ask(pipeline, input_name, True, timeout_s, cluster, as_json)


@click.command("resume-input")
@click.argument("pipeline")
@click.argument("input_name", metavar="INPUT")
@timeout_option
@cluster_option
@json_option
@debug_option
def resume_input(
    pipeline: str, input_name: str, timeout_s: float, cluster: ClusterSettings, as_json: bool
) -> None:
    """Read INPUT again, from where it was paused.

    \b
    Example:  kcontrol resume-input flights planes
    """
    _ask(pipeline, input_name, False, timeout_s, cluster, as_json)


def _ask(
    pipeline: str, name: str, paused: bool, timeout_s: float, cluster: ClusterSettings, as_json: bool
) -> None:
    said = asyncio.run(ask_input(cluster, pipeline, name, paused=paused, timeout_s=timeout_s))
    first = said.step + 1
    facts = {
        "pipeline": pipeline,
        "input": name,
        "paused": paused,
        "from_step": first,
        "phase": said.phase.value,
    }
    now = "is paused" if paused else "is read"
    click.echo(
        json.dumps(facts) if as_json else f"pipeline {pipeline}: input {name} {now} from step {first} on"
    )


@click.command()
@click.argument("pipeline")
@click.option("--input", "input_name", required=True, metavar="INPUT", help="The input.")
@click.option("--partition", required=True, type=click.IntRange(0), help="The partition of its topic.")
@click.option(
    "--to-offset", required=True, type=click.IntRange(0), help="Where the next step begins instead."
)
@click.option("--by", metavar="NAME", help="Who asks, for the record. Default: user and host.")
@timeout_option
@cluster_option
@json_option
@debug_option
def skip(
    pipeline: str,
    input_name: str,
    partition: int,
    to_offset: int,
    by: str | None,
    timeout_s: float,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Go past offsets of one partition that no step shall read: expired ones, or records that no query can
    digest.

    The pipeline must have halted, or be paused or stopped, or the input must be paused. The range, who asked
    and when are in the log of steps as long as it keeps the step (keep_steps). A waiting skip can be changed,
    or taken back by --to-offset where it begins.

    \b
    Example:  kcontrol skip flights --input flights --partition 0 --to-offset 1200
    """
    wanted = (input_name, partition, to_offset)
    taken = asyncio.run(ask_skip(cluster, pipeline, wanted, by or asked_by(), timeout_s))
    asked = taken.request
    facts = {
        "pipeline": pipeline,
        "input": input_name,
        "partition": partition,
        "from": asked.from_,
        "to": asked.to,
        "by": asked.by,
        "asked_ms": asked.asked_ms,
        "step": taken.step,
        "committed": taken.committed,
    }
    if as_json:
        click.echo(json.dumps(facts))
        return
    where = f"pipeline {pipeline}: input {input_name}, partition {partition}"
    if asked.from_ == asked.to:
        click.echo(f"{where}: nothing is skipped; step {taken.step} begins at offset {asked.to}")
    else:
        begins = "began" if taken.committed else "begins"
        click.echo(
            f"{where}: offsets {asked.from_} to {asked.to - 1} are skipped; step {taken.step} {begins} "
            f"at offset {asked.to}"
        )


def asked_by() -> str:
    """User and host, for whoever reads the log."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
