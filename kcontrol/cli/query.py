"""`kcontrol query`: SQL over the state of all nodes and the outputs, as of one step."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.adapters.java import find_java
from kcontrol.apps.phases import LOOKING, STARTING_SPARK, phase
from kcontrol.apps.pipeline_tables import MASTER, PipelineTables, query_session
from kcontrol.apps.query_scratch import scratch
from kcontrol.apps.show import MAX_TEXT, time_text
from kcontrol.apps.supervisor.priority import give_way
from kcontrol.apps.table_parts import check_askable
from kcontrol.cli.options import cluster_option, debug_option, json_option, nodes_dir, work_dir_option
from kcontrol.requests.table_questions import KnownTables, TableAnswer, TableLimits, TableQuestion
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import cache_home

DEFAULT_NICENESS = 10
"""Asking must not slow down what is asked about."""

_DEFAULTS = TableLimits()
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Answer = TypeVar("_Answer")


def session_options(command: _Command) -> _Command:
    """Of the process that answers: --master, --work-dir, --scratch, --niceness, --max-read and --max-answer."""
    for option in (
        click.option(
            "--max-answer",
            type=click.IntRange(1),
            metavar="BYTES",
            default=_DEFAULTS.answer_bytes,
            show_default=True,
            help="Of an answer, at most; rows beyond are left out.",
        ),
        click.option(
            "--max-read",
            type=click.IntRange(1),
            metavar="BYTES",
            default=_DEFAULTS.read_bytes,
            show_default=True,
            help="Of the records of one output that a question reads, at most; else it is refused.",
        ),
        click.option(
            "--niceness",
            type=click.IntRange(0, 19),
            default=DEFAULT_NICENESS,
            show_default=True,
            help="How far this process gives way to others on this machine, such as nodes.",
        ),
        click.option(
            "--scratch",
            "scratch_dir",
            type=click.Path(path_type=Path),
            help="Where copies of state and outputs are put while they are asked about. Default: query/ in the user's "
            "cache directory.",
        ),
        work_dir_option,
        click.option(
            "--master", metavar="URL", default=MASTER, show_default=True, help="Spark master, local[N]."
        ),
    ):
        command = option(command)
    return command


def own_places(work_dir: Path | None, scratch_dir: Path | None) -> tuple[Path, Path]:
    """Where nodes of this machine have their own checkpoints, and where scratch directories are."""
    own = own_checkpoints(nodes_dir(work_dir))
    return own, (scratch_dir or cache_home() / "query").resolve()


@click.command()
@click.argument("pipeline")
@click.option(
    "--sql",
    metavar="TEXT",
    help="One statement that reads: SELECT, WITH, VALUES, EXPLAIN, DESCRIBE, SHOW TABLES.",
)
@click.option("--tables", is_flag=True, help="Print the tables with their columns instead.")
@click.option(
    "--step",
    type=click.IntRange(1),
    help="As of this step, of which there must be a checkpoint if the pipeline keeps state. Default: the newest.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000_000),
    metavar="N",
    default=_DEFAULTS.rows,
    show_default=True,
    help="Rows of the answer, at most.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 86_400),
    metavar="S",
    default=_DEFAULTS.timeout_s,
    show_default=True,
    help="Seconds after which the question is cancelled; starting Spark does not count.",
)
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print comma-separated values, with a line of column names."
)
@session_options
@cluster_option
@json_option
@debug_option
def query(
    pipeline: str, sql: str | None, tables: bool, step: int | None, limit: int, timeout_s: float, as_csv: bool,
    master: str, work_dir: Path | None, scratch_dir: Path | None, niceness: int, max_read: int, max_answer: int,
    cluster: ClusterSettings, as_json: bool,
) -> None:  # fmt: skip
    """Ask about the state of all nodes of PIPELINE and its outputs, in Spark's SQL, as of one step.

    The pipeline, running or not, does not notice: its state is read from a checkpoint, in a process of its own. Its
    outputs are the tables OUTPUT and OUTPUT__latest, its state QUERY__KIND: --tables lists them.

    \\b
    Example:  kcontrol query flights --tables
              kcontrol query flights --sql "SELECT carrier, count FROM delays__aggregate WHERE count > 5"
    """
    if (sql is None) != tables:
        raise click.UsageError("give --sql TEXT or --tables, one of them")
    if as_csv and (as_json or tables):
        raise click.UsageError("--csv is for the rows of --sql alone")
    give_way(niceness)
    limits = TableLimits(limit, max_answer, timeout_s, max_read)
    places = own_places(work_dir, scratch_dir)

    asked, sql_text = (pipeline, step), sql or ""

    async def known(answering: PipelineTables) -> KnownTables:
        return await answering.tables(*asked)

    async def answered(answering: PipelineTables) -> TableAnswer:
        return await answering.answer(TableQuestion(pipeline, sql_text, step))

    if tables:
        _print_tables(_asked(cluster, master, places, limits, asked, known, as_json), as_json)
    else:
        _print_answer(_asked(cluster, master, places, limits, asked, answered, as_json), as_json, as_csv)


def _asked(
    cluster: ClusterSettings,
    master: str,
    places: tuple[Path, Path],
    limits: TableLimits,
    asked: tuple[str, int | None],
    ask: Callable[[PipelineTables], Awaitable[_Answer]],
    quiet: bool,
) -> _Answer:
    own, root = places
    find_java()
    with phase(LOOKING, quiet):
        asyncio.run(check_askable(cluster, *asked))
    with scratch(root) as directory:
        with phase(STARTING_SPARK, quiet):
            spark = query_session(directory, limits, master)

        async def run() -> _Answer:
            tables = PipelineTables(cluster, spark, directory, own, limits)
            try:
                return await ask(tables)
            finally:
                tables.close()

        try:
            return asyncio.run(run())
        finally:
            spark.stop()


def _print_answer(answer: TableAnswer, as_json: bool, as_csv: bool) -> None:
    for note in answer.notes if not as_json else ():
        click.echo(note, err=True)
    if as_json:
        click.echo(json.dumps(asdict(answer), ensure_ascii=False, separators=(",", ":")))
        return
    names = [column.name for column in answer.columns]
    said = f"as of step {answer.step} ({time_text(answer.step_ms)})"
    left_out = "; there are more, which are left out (--limit)" if answer.more else ""
    count = f"{len(answer.rows):,} row{'' if len(answer.rows) == 1 else 's'}"
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows([_plain(value) for value in row] for row in answer.rows)
    else:
        click.echo(_table(names, answer.rows))
    click.echo(f"{count}, {said}{left_out}", err=as_csv)


def _print_tables(known: KnownTables, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(known), ensure_ascii=False, separators=(",", ":")))
        return
    for table in known.tables:
        click.echo(f"{table.name}  ({table.what})")
        for column in table.columns:
            click.echo(f"    {column.name}  {column.type}")
    click.echo(f"as of step {known.step} ({time_text(known.step_ms)}); can be asked as of step {known.steps}")


def _table(names: list[str], rows: Any) -> str:
    lines = [[_cell(name) for name in names], *([_cell(_plain(value)) for value in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _plain(value: Any) -> str:
    """A value as text; what has parts as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cell(text: str) -> str:
    """On one line, without what a terminal would follow, and not endless."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return shown if len(shown) <= MAX_TEXT else shown[: MAX_TEXT - 3] + "..."
