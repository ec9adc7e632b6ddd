"""`kcontrol query-server`: one warm Spark session that answers questions for `kcontrol serve`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.listener import Listener
from kcontrol.adapters.java import find_java
from kcontrol.apps.phases import STARTING_SPARK, phase
from kcontrol.apps.pipeline_tables import PipelineTables, query_session
from kcontrol.apps.query_scratch import scratch
from kcontrol.apps.query_server import serve_questions
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.apps.supervisor.priority import give_way
from kcontrol.cli.listening import listen, run_listening
from kcontrol.cli.options import cluster_option, debug_option, json_option, listen_options
from kcontrol.cli.query import own_places, session_options
from kcontrol.requests.table_questions import TableLimits
from kcontrol.settings.cluster import ClusterSettings

DEFAULT_PORT = 8481
_DEFAULTS = TableLimits()
_ABOVE_S = 15.0
"""A request may take so much longer than the question in it, which then is cancelled."""


@click.command(name="query-server")
@listen_options("the questions", "", DEFAULT_PORT)
@click.option(
    "--max-rows",
    type=click.IntRange(1, 10_000_000),
    default=_DEFAULTS.rows,
    show_default=True,
    help="Rows of an answer, at most.",
)
@click.option(
    "--max-timeout",
    "timeout_s",
    type=click.FloatRange(1, 3_600),
    default=_DEFAULTS.timeout_s,
    show_default=True,
    help="Seconds after which a question is cancelled.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(1, 1_000),
    default=_DEFAULTS.waiting,
    show_default=True,
    help="Questions that wait for the one that is being answered; others get 503 at once.",
)
@click.option(
    "--keep-steps",
    type=click.IntRange(1, 100),
    default=_DEFAULTS.kept,
    show_default=True,
    help="Steps whose state and outputs stay copied for the next question.",
)
@session_options
@lifeline_option
@cluster_option
@json_option
@debug_option
def query_server(
    host: str, port: int, token_file: Path | None, max_rows: int, timeout_s: float, max_waiting: int, keep_steps: int,
    master: str, work_dir: Path | None, scratch_dir: Path | None, niceness: int, max_read: int, max_answer: int,
    cluster: ClusterSettings, as_json: bool,
) -> None:  # fmt: skip
    """Answer questions about pipelines' state and outputs over HTTP until Ctrl-C, one at a time. `kcontrol serve
    --query-server URL` hands on to it what it is asked.

    \b
    Example:  kcontrol query-server --port 8481
              kcontrol serve --query-server http://127.0.0.1:8481
    """
    give_way(niceness)
    find_java()
    limits = TableLimits(max_rows, max_answer, timeout_s, max_read, max_waiting, keep_steps)
    listener = listen(host, port, token_file, HttpLimits(request_timeout_s=timeout_s + _ABOVE_S))
    own, root = own_places(work_dir, scratch_dir)
    with scratch(root) as directory:
        with phase(STARTING_SPARK, as_json):
            spark = query_session(directory, limits, master)
        try:
            facts = {
                "query_server": listener.url,
                "pid": os.getpid(),
                "bootstrap_servers": cluster.bootstrap_servers,
            }
            click.echo(
                json.dumps(facts) if as_json else f"answering questions at {listener.url} (pid {os.getpid()})"
            )
            tables = PipelineTables(cluster, spark, directory, own, limits)
            run_listening(listener, lambda: _serve(listener, tables))
        finally:
            spark.stop()


async def _serve(listener: Listener, tables: PipelineTables) -> None:
    try:
        await serve_questions(listener, tables)
    finally:
        tables.close()
