"""`kcontrol acls`: the rights that a pipeline needs in Kafka, as commands that grant them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from kcontrol.adapters.kafka.admin.roles import ROLES, Role, Topics, commands, needs
from kcontrol.cli.options import debug_option, json_option
from kcontrol.cli.source import load_definition
from kcontrol.settings.toml import find_names


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--role",
    "role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="What the principal does.",
)
@click.option(
    "--principal", metavar="TYPE:NAME", required=True, help="Whom to grant it, such as User:kcontrol-node."
)
@click.option(
    "--optional/--no-optional",
    "with_optional",
    default=False,
    help="With those that only creating missing topics and looking at more need.",
)
@json_option
@debug_option
def acls(file: Path, role: str, principal: str, with_optional: bool, as_json: bool) -> None:
    """Print what grants ROLE all that it needs for the pipeline in FILE, one kafka-acls.sh
    command a line, and nothing more.

    Kafka is not asked: names and address come from kcontrol.toml or the environment. Needs nobody's
    credentials.

    \b
    Example:  kcontrol acls flights.py --role node --principal User:flights-node
    """
    servers, names = find_names(os.environ, Path.cwd())
    pipeline = load_definition(file, as_json=as_json)
    found = [
        need
        for need in needs(Role(role), names, pipeline.name, Topics.of(pipeline))
        if with_optional or not need.optional
    ]
    if not as_json:
        click.echo(f"# {role}: {ROLES[Role(role)]}")
    for need, command in zip(found, commands(found, principal, servers or "HOST:PORT"), strict=True):
        right = need.right
        facts = {
            "resource": right.kind.value,
            "name": right.name,
            "operations": [operation.value for operation in right.operations],
            "principal": principal,
            "why": need.why,
        }
        click.echo(json.dumps(facts) if as_json else command)
