"""`--tags` of jobs that agents run."""

from __future__ import annotations

import click

from kcontrol.apps.agent.nodes import check_agent_name


def _tags(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(check_agent_name("tag", tag) for tag in filter(None, value.split(",")))


tags_option = click.option(
    "--tags",
    callback=_tags,
    metavar="A,B",
    help='What an agent must have, to run one of them. Default: what the job asked for so far; "" for nothing.',
)
"""As the parameter `tags`: None if it is not given."""
