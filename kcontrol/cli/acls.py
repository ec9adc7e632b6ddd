"""`kcontrol acls`: the rights that a pipeline, or a region, needs in Kafka, as commands that grant them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from kcontrol.adapters.kafka.admin.region_roles import REGION_ROLES, RegionRole, member_needs, region_needs
from kcontrol.adapters.kafka.admin.roles import ROLES, Role, RoleRight, Topics, commands, needs
from kcontrol.cli.options import debug_option, json_option
from kcontrol.cli.source import load_definition
from kcontrol.definition.region_file import region_settings
from kcontrol.errors import ConfigurationError
from kcontrol.settings.toml import find_names
from kcontrol.wire.names import Names


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--role",
    "role",
    type=click.Choice([role.value for role in (*Role, *RegionRole)]),
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

    A role of a region needs what is printed for the region's file (TOML), and what is printed for each of its pipelines.
    Kafka is not asked: names and address come from kcontrol.toml or the environment. Needs nobody's credentials.

    \b
    Examples:  kcontrol acls flights.py --role node --principal User:flights-node
               kcontrol acls end-of-day.toml --role region-controller --principal User:regions
               kcontrol acls flights.py --role region-controller --principal User:regions
    """
    servers, names = find_names(os.environ, Path.cwd())
    what, every = _needs(file, role, names, as_json=as_json)
    found = [need for need in every if with_optional or not need.optional]
    if not as_json:
        click.echo(f"# {role}: {what}")
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


def _needs(file: Path, role: str, names: Names, *, as_json: bool) -> tuple[str, tuple[RoleRight, ...]]:
    """What the role is for, and what it needs. Raises ConfigurationError."""
    of_region = role in set(RegionRole)
    if file.suffix == ".toml":
        region = region_settings(file).region
        if not of_region:
            raise ConfigurationError(
                f"{file} defines a region, and {role} is a role of pipelines: choose from {', '.join(RegionRole)}"
            )
        return REGION_ROLES[RegionRole(role)], region_needs(RegionRole(role), names, region)
    pipeline = load_definition(file, as_json=as_json)
    topics = Topics.of(pipeline)
    if of_region:
        return REGION_ROLES[RegionRole(role)], member_needs(RegionRole(role), names, pipeline.name, topics)
    return ROLES[Role(role)], needs(Role(role), names, pipeline.name, topics)
