"""`kcontrol warm`: what a machine or an image can do once, so that no node has to do it when it starts."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kcontrol.adapters.spark.session.class_archive import make_archive
from kcontrol.cli.options import debug_option, json_option
from kcontrol.errors import ConfigurationError
from kcontrol.wire import batches, row_hash


@click.command()
@json_option
@debug_option
def warm(as_json: bool) -> None:
    """Prepare this machine for quick starts: compile the record codec and archive Spark's Java classes.

    Takes about half a minute. For images, or before the first start: a node makes the archive by itself, in
    the background, where there is none. Everything works without it, but each start of a node then takes Java
    almost twice the processor time. Its files are in the user's cache directory.

    \b
    Example:  kcontrol warm
    """
    batches.warm()
    row_hash.warm()
    try:
        path = make_archive()
    except OSError as error:
        raise ConfigurationError(
            f"the cache directory can't be written: {error}; set XDG_CACHE_HOME to one that can"
        ) from error
    _say(path, as_json)


def _say(path: Path, as_json: bool) -> None:
    size = path.stat().st_size
    if as_json:
        click.echo(json.dumps({"class_archive": str(path), "bytes": size}))
    else:
        click.echo(f"compiled the record codec; archived Spark's classes in {path} ({size / 1e6:.0f} MB)")
