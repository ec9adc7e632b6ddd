"""What a command does while it takes long: a spinner with the seconds on a terminal, a
line elsewhere; never on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

LOOKING = "looking at the cluster and the topics"
STARTING_SPARK = "starting Spark"
PLANNING = "planning the queries"


@contextmanager
def phase(text: str, as_json: bool = False) -> Iterator[None]:
    """Says what is being done for as long as the block runs; nothing with `as_json`: a program needs no
    words."""
    if as_json:
        yield
        return
    if not click.get_text_stream("stderr").isatty():
        click.echo(f"{text} ...", err=True)
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(text, total=None)
        yield
