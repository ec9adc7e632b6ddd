"""Options that commands share, and what they come to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kcontrol.apps.logs import DEBUG_VARIABLE, set_up_logging
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home
from kcontrol.settings.toml import resolve_settings
from kcontrol.views.look_limits import MAX_LOOK_OFFSETS

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _debug(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    debug = value or bool(os.environ.get(DEBUG_VARIABLE))
    set_up_logging(debug)


def _cluster(_context: click.Context, _parameter: click.Parameter, value: str | None) -> ClusterSettings:
    return find_cluster(value)


def find_cluster(bootstrap_servers: str | None) -> ClusterSettings:
    """The cluster that the option, the environment or `kcontrol.toml` names;
    ConfigurationError if none does."""
    return resolve_settings(bootstrap_servers, os.environ, Path.cwd())


def listen_options(what: str, prefix: str, default_port: int | None) -> Callable[[_Command], _Command]:
    """--PREFIXhost, --PREFIXport and --token-file, as the parameters `host`, `port` and
    `token_file`; `what` is served."""

    def add(command: _Command) -> _Command:
        default = f"Default: {default_port}." if default_port is not None else "Default: nothing is served."
        for option in (
            click.option(
                "--token-file",
                type=click.Path(path_type=Path),
                help="File with the bearer token that every request must hold. Needed for any --host but "
                "this machine's own.",
            ),
            click.option(
                f"--{prefix}port",
                "port",
                type=click.IntRange(0, 65535),
                default=default_port,
                help=f"Port of {what}; 0: a free one. {default}",
            ),
            click.option(
                f"--{prefix}host",
                "host",
                default="127.0.0.1",
                show_default=True,
                help=f"Address of {what} on this machine.",
            ),
        ):
            command = option(command)
        return command

    return add


def work_dir_option(command: _Command) -> _Command:
    """--work-dir, for what looks for what nodes of this machine have: see `nodes_dir`."""
    return click.option(
        "--work-dir",
        type=click.Path(path_type=Path),
        help="Where nodes of this machine work and, if they are told of no other place, save. Default: nodes/ in the user's "
        "data directory.",
    )(command)


def nodes_dir(work_dir: Path | None) -> Path:
    """What --work-dir comes to, absolute."""
    return (work_dir or data_home() / "nodes").resolve()


def debug_option(command: _Command) -> _Command:
    """--debug: log everything and show tracebacks. Sets logging up either way."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_debug,
        is_eager=True,
        help="Log everything; show tracebacks.",
    )(command)


def cluster_option(command: _Command) -> _Command:
    """--bootstrap-servers, as the parameter `cluster`."""
    return click.option(
        "--bootstrap-servers",
        "cluster",
        metavar="HOST:PORT,...",
        callback=_cluster,
        help="Address of Kafka. Else KCONTROL_BOOTSTRAP_SERVERS, else kcontrol.toml in this directory.",
    )(command)


def json_option(command: _Command) -> _Command:
    """--json, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


def nodes_option(command: _Command) -> _Command:
    """--nodes, as the parameter `nodes`: None if it is not given."""
    return click.option(
        "--nodes",
        type=click.IntRange(1),
        metavar="N",
        help="How many nodes the pipeline has, whatever FILE says. All its nodes must be given the same.",
    )(command)


standbys_option = click.option(
    "--standby",
    "standbys",
    type=click.IntRange(0),
    metavar="N",
    help="Have so many processes stand by, with everything ready, for nodes whose host dies. Default: as many as the job has, "
    "0 at first.",
)


look_option = click.option(
    "--max-look-offsets",
    type=click.IntRange(1, 100_000_000),
    default=MAX_LOOK_OFFSETS,
    show_default=True,
    help="Offsets that are read to find out whether a record that Kafka has no more was there when its "
    "step read.",
)
why_option = click.option("--why", default="", help="Why, for whoever reads the log: it is recorded.")
plan_option = click.option(
    "--plan", "only_plan", is_flag=True, help="Check everything, show what would be void, and change nothing."
)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 86_400),
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for what becomes of it. It stays asked for afterwards.",
)
"""Of what a region is asked for."""
