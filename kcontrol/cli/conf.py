"""`kcontrol conf`: the Spark settings that kcontrol needs, for spark-submit or a session of one's own."""

from __future__ import annotations

import json
import shlex

import click

from kcontrol.adapters.spark.session.conf import SETTINGS
from kcontrol.cli.options import debug_option, json_option


@click.command()
@json_option
@debug_option
def conf(as_json: bool) -> None:
    """Print the Spark settings that kcontrol needs, as options of spark-submit.

    With --json, one object a setting: its name, value, what it is needed for, and whether a
    session without it is refused.

    \b
    Example:  spark-submit $(kcontrol conf) application.py
    """
    for setting in SETTINGS:
        if as_json:
            facts = {
                "name": setting.name,
                "value": setting.value,
                "need": setting.need.value,
                "why": setting.why,
            }
            click.echo(json.dumps(facts))
        else:
            click.echo(f"--conf {shlex.quote(f'{setting.name}={setting.value}')}")
