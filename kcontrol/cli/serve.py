"""`kcontrol serve`: the REST interface and metrics of all pipelines of a cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.adapters.http.limits import MAX_WAIT_S, HttpLimits
from kcontrol.adapters.http.query_client import QueryClient
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.apps.agent.asking import agents_asked
from kcontrol.apps.agent.following import AgentsFollower
from kcontrol.apps.http_server import serve_interface
from kcontrol.apps.projection_source import KafkaProjectionSource
from kcontrol.apps.regions.following import RegionsFollower
from kcontrol.apps.regions.rollbacks import rollbacks_of
from kcontrol.apps.reset import resets_of
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.apps.supervisor.priority import give_way
from kcontrol.cli.listening import listen, run_listening
from kcontrol.cli.options import (
    cluster_option,
    debug_option,
    json_option,
    listen_options,
    look_option,
    nodes_dir,
)
from kcontrol.cli.push_options import push_options, with_push_limits
from kcontrol.requests.region_rollbacks import no_rollbacks
from kcontrol.requests.resets import no_resets
from kcontrol.requests.table_questions import nobody_answers
from kcontrol.settings.cluster import ClusterSettings

DEFAULT_PORT = 8480
NICENESS = 10
"""Looking on must not slow down what is looked at."""

_DEFAULTS = HttpLimits()


@click.command()
@listen_options("the interface", "", DEFAULT_PORT)
@click.option(
    "--max-concurrent",
    type=click.IntRange(1, 10_000),
    default=_DEFAULTS.max_concurrent,
    show_default=True,
    help="Requests that are answered at a time; others get 503 at once.",
)
@click.option(
    "--request-timeout",
    "request_timeout_s",
    type=click.FloatRange(MAX_WAIT_S + 1, 600),
    default=_DEFAULTS.request_timeout_s,
    show_default=True,
    help="Seconds after which a request ends with 504.",
)
@click.option(
    "--headers-timeout",
    "headers_timeout_s",
    type=click.FloatRange(0.1, 600),
    default=_DEFAULTS.headers_timeout_s,
    show_default=True,
    help="Seconds after which a connection is cut off that has not brought the headers of a request, whole.",
)
@click.option(
    "--max-streams",
    type=click.IntRange(0, 1_000),
    default=_DEFAULTS.max_streams,
    show_default=True,
    help="Outputs that are streamed at a time, by GET .../outputs/O/stream. With more than 0, whoever may ask this server can "
    "read what pipelines write.",
)
@push_options
@click.option(
    "--allow-resets",
    is_flag=True,
    help="Answer POST .../reset, by which a stopped pipeline goes back to one of its steps, and .../rollback, by which "
    "those of a region go back to a cut. Whoever may ask this server can then make steps void, and it needs a coordinator's "
    "rights in Kafka.",
)
@click.option(
    "--niceness",
    type=click.IntRange(0, 19),
    default=NICENESS,
    show_default=True,
    help="How far the server gives way to other processes on this machine, such as nodes.",
)
@click.option(
    "--query-server",
    "query_url",
    metavar="URL",
    help="Where a `kcontrol query-server` listens, for POST .../query. Whoever may ask this server can then read pipelines' "
    "state and outputs.",
)
@click.option(
    "--query-token-file",
    type=click.Path(path_type=Path),
    help="File with the bearer token of the query server.",
)
@look_option
@lifeline_option
@cluster_option
@json_option
@debug_option
def serve(
    host: str,
    port: int,
    token_file: Path | None,
    max_concurrent: int,
    request_timeout_s: float,
    headers_timeout_s: float,
    max_streams: int,
    allow_resets: bool,
    niceness: int,
    query_url: str | None,
    query_token_file: Path | None,
    max_look_offsets: int,
    cluster: ClusterSettings,
    as_json: bool,
    **pushes: Any,
) -> None:
    """Serve the REST interface and the Console until Ctrl-C. Any number may run: all that
    they say and are told is in Kafka.

    \b
    Example:  kcontrol serve --bootstrap-servers broker:9092 --port 8480
    """
    limits = HttpLimits(
        max_concurrent=max_concurrent,
        request_timeout_s=request_timeout_s,
        headers_timeout_s=headers_timeout_s,
        max_look_offsets=max_look_offsets,
        max_streams=max_streams,
    )
    limits = with_push_limits(limits, **pushes)
    give_way(niceness)
    ask = QueryClient(query_url, query_token_file, request_timeout_s).ask if query_url else nobody_answers
    listener = listen(host, port, token_file, limits)
    facts = {"serve": listener.url, "pid": os.getpid(), "bootstrap_servers": cluster.bootstrap_servers}
    text = f"serving {listener.url}/v1, with the Console at {listener.url}/ (pid {os.getpid()})"
    click.echo(json.dumps(facts) if as_json else text)
    own = own_checkpoints(nodes_dir(None))
    run_listening(
        listener,
        lambda: serve_interface(
            listener,
            cluster,
            KafkaProjectionSource(cluster),
            make_registry(),
            ask=ask,
            agents=AgentsFollower(cluster),
            ask_agents=agents_asked(cluster),
            regions=RegionsFollower(cluster),
            resets=resets_of(cluster, own) if allow_resets else no_resets,
            rollbacks=rollbacks_of(cluster, own) if allow_resets else no_rollbacks,
        ),
    )
