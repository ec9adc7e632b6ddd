"""`kcontrol delete`: removes a pipeline from the cluster, and nothing that it has read or written."""

from __future__ import annotations

import asyncio
import json

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.adapters.checkpoints.store import CheckpointStore
from kcontrol.apps.deletion import Remains, look
from kcontrol.apps.deletion import delete as delete_from_kafka
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.core.model import IN_WORK_DIR
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home
from kcontrol.wire.addresses import is_topic


@click.command()
@click.argument("pipeline")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--checkpoints",
    is_flag=True,
    help="Delete its checkpoints, too, as far as they are not beside nodes on other machines.",
)
@cluster_option
@json_option
@debug_option
def delete(
    pipeline: str, dry_run: bool, yes: bool, checkpoints: bool, cluster: ClusterSettings, as_json: bool
) -> None:
    """Remove a stopped pipeline: its definition, all that was said of it, the topics of its exchanges, and its
    log of steps. Its name is free afterwards: what is submitted under it begins with step 1.

    Topics that it reads or writes stay as they are, and so do its checkpoints, without --checkpoints. There
    is no way back: what became of a record can't be asked any more. Refused while a coordinator runs it or a
    node is alive: kcontrol stop first. What was ended half way is completed by another try.

    \b
    Examples:  kcontrol delete flights --dry-run
               kcontrol delete flights
    """
    remains = asyncio.run(look(cluster, pipeline))
    _tell(remains, as_json=as_json, checkpoints=checkpoints)
    if dry_run:
        return
    if not yes:
        _confirm(pipeline)

    def forget_checkpoints() -> None:
        if checkpoints and remains.log_id:
            for location in remains.checkpoint_locations:
                CheckpointStore().forget_log(_place(location), pipeline, remains.log_id)

    asyncio.run(delete_from_kafka(cluster, remains, forget_checkpoints))
    if not as_json:
        click.echo(f"pipeline {pipeline}: deleted")


def _confirm(pipeline: str) -> None:
    try:
        typed = click.prompt(
            "Type the name of the pipeline to delete it", default="", show_default=False, err=True
        )
    except click.Abort:
        click.echo(err=True)
        raise ConfigurationError(
            f"nothing was deleted: nobody has typed {pipeline!r}; --yes does not ask"
        ) from None
    if typed != pipeline:
        raise ConfigurationError(f"{typed!r} is not {pipeline!r}: nothing was deleted")


def _tell(remains: Remains, *, as_json: bool, checkpoints: bool) -> None:
    places = (
        [_shown(location, remains) for location in remains.checkpoint_locations] if remains.log_id else []
    )
    spec = remains.spec
    read, written = (
        ([], [])
        if spec is None
        else (
            [each.topic for each in spec.inputs if is_topic(each.topic)],
            [each.topic for each in spec.outputs],
        )
    )
    stays = sorted({*read, *written})
    if as_json:
        facts = {
            "pipeline": remains.pipeline,
            "control_topic": remains.control_topic,
            "control_partition": remains.partition,
            "control_keys": list(remains.keys),
            "steps_topic": remains.steps_topic,
            "exchange_topics": list(remains.exchange_topics),
            "step": remains.step,
            "checkpoints": places,
            "deletes_checkpoints": checkpoints,
            "stays": stays,
        }
        click.echo(json.dumps(facts))
        return
    click.echo(f"pipeline {remains.pipeline}{'' if spec is not None else ', which was deleted half way'}:")
    click.echo(
        f"  removed  {len(remains.keys):,} records in partition {remains.partition} of topic "
        f"{remains.control_topic}"
    )
    for topic in remains.exchange_topics:
        click.echo(f"  removed  topic {topic}, of an exchange")
    if remains.steps_topic:
        steps = "which can't be read" if remains.step < 0 else f"with the records of {remains.step:,} steps"
        click.echo(f"  removed  topic {remains.steps_topic}, {steps}")
    for place in places:
        click.echo(f"  {'removed' if checkpoints else 'stays  '}  checkpoints in {place}")
    for topic in stays:
        click.echo(f"  stays    topic {topic}")


def _place(location: str) -> str:
    return str(own_checkpoints(data_home() / "nodes")) if location == IN_WORK_DIR else location


def _shown(location: str, remains: Remains) -> str:
    where = f"{_place(location).partition('?')[0].rstrip('/')}/{remains.pipeline}/{remains.log_id}"
    return f"{where}, and beside its nodes on other machines" if location == IN_WORK_DIR else where
