"""`kcontrol agent`: a host's part in a cluster that places pipelines by itself."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcontrol.adapters.kafka.admin.cluster import check_cluster, ensure_topics
from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics, ensure_packages_topic
from kcontrol.apps.agent.environments import MAX_ENVIRONMENTS, HostEnvironments
from kcontrol.apps.agent.environments import TIMEOUT_S as ENVIRONMENT_TIMEOUT_S
from kcontrol.apps.agent.nodes import PACKAGES_TAG, NodeCommands, check_agent_name
from kcontrol.apps.agent.packages import HostPackages
from kcontrol.apps.agent.serve import AgentOptions, serve
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.apps.agent.unit_log import LOG_BYTES
from kcontrol.apps.own_archive import make_in_background
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home

if TYPE_CHECKING:
    from kcontrol.apps.agent.trust import TrustedKeys


@click.command()
@click.option("--name", help="The agent's name in the cluster. Default: the host's name.")
@click.option(
    "--slots", type=click.IntRange(0, 10_000), default=1, show_default=True, help="Nodes that may run here."
)
@click.option("--tags", default="", metavar="A,B", help="What this host has, for jobs that ask for it.")
@click.option(
    "--files",
    type=click.Path(path_type=Path),
    help="The folder with the pipeline files that may be run here, the same on every host.",
)
@click.option(
    "--packages/--no-packages",
    "runs_packages",
    default=False,
    show_default=True,
    help="Run what was submitted with its code, too: whoever may write the cluster's topics runs code here.",
)
@click.option(
    "--trusted-keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --packages: run only what was signed (kcontrol submit --sign) by one of these public keys, a line each as in "
    "id_ed25519.pub.",
)
@click.option(
    "--environments",
    type=click.IntRange(1, 1_000),
    default=MAX_ENVIRONMENTS,
    show_default=True,
    help="So many environments of packages with requirements are kept, besides those in use.",
)
@click.option(
    "--environment-timeout",
    "environment_timeout_s",
    type=click.FloatRange(1.0, 86_400.0),
    default=ENVIRONMENT_TIMEOUT_S,
    show_default=True,
    help="Seconds that one may take to be made.",
)
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path),
    help="What the agent remembers, and Spark's state. Default: agent/ in the user's data directory.",
)
@click.option(
    "--kill-after",
    "kill_after_s",
    type=click.FloatRange(1.0, 600.0),
    default=20.0,
    show_default=True,
    help="Seconds from SIGTERM to SIGKILL for a process that is to end.",
)
@click.option(
    "--log-mb",
    type=click.IntRange(1, 100_000),
    default=LOG_BYTES >> 20,
    show_default=True,
    metavar="MB",
    help="Of what each process says here, this much is kept, and once more as much of what it said before that.",
)
@click.option(
    "--leave/--stay",
    "leaves",
    default=False,
    show_default=True,
    help="At the end, give up the place in the cluster at once, with all that runs here. Else the next start goes on.",
)
@click.option(
    "--archive/--no-archive",
    "archives",
    default=True,
    show_default=True,
    help="Archive Spark's Java classes in the background, as `kcontrol warm` does, if this host has no archive: the first node "
    "that comes here because another host has died starts sooner.",
)
@cluster_option
@json_option
@debug_option
def agent(
    name: str | None,
    slots: int,
    tags: str,
    files: Path | None,
    runs_packages: bool,
    trusted_keys: Path | None,
    environments: int,
    environment_timeout_s: float,
    work_dir: Path | None,
    kill_after_s: float,
    log_mb: int,
    leaves: bool,
    archives: bool,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Run this host's agent until Ctrl-C. Agents have no master: they find each other in Kafka, place the
    nodes of what `kcontrol place` submits, and run them elsewhere when a host dies.

    What it runs outlives it: an agent that is started again goes on with it. With --leave all of it ends,
    too; with exit code 3 where the cluster could not be told so.

    \b
    Example:  kcontrol agent --files /srv/pipelines --slots 4 --tags gpu
    """
    if files is None and not runs_packages:
        raise ConfigurationError("say what may be run here: --files FOLDER, or --packages, or both")
    if files is not None and not files.is_dir():
        raise ConfigurationError(f"--files {files}: there is no such folder on this host")
    if trusted_keys is not None and not runs_packages:
        raise ConfigurationError("--trusted-keys says whose packages are run: it goes with --packages")
    trusted = None if trusted_keys is None else _trusted(trusted_keys)
    asyncio.run(check_cluster(cluster))
    ensure_topics(cluster)
    ensure_cluster_topics(cluster)
    own = check_agent_name("the agent's name", name or socket.gethostname())
    found = tuple(check_agent_name("tag", tag) for tag in filter(None, tags.split(",")))
    found = tuple(dict.fromkeys((*found, PACKAGES_TAG))) if runs_packages else found
    folder = (work_dir or data_home() / "agent").resolve()
    packages, made = None, None
    if runs_packages:
        ensure_packages_topic(cluster)
        packages = HostPackages(cluster, folder / "packages", trusted)
        made = HostEnvironments(folder / "environments", environments, environment_timeout_s)
    commands = NodeCommands(files, cluster.bootstrap_servers, folder / "nodes", packages, made)

    def tell(what: str) -> None:
        facts = {"agent": own, "pid": os.getpid(), "told": what}
        with suppress(OSError):  # To a file on a disk that is full: what it does goes on.
            _show(json.dumps(facts) if as_json else f"agent {own} {what}")

    session = SessionOptions(coordinator=commands.coordinator(own))
    options = AgentOptions(
        own, slots, found, folder, round(kill_after_s * 1000), leaves, session, log_mb << 20
    )
    if archives:
        make_in_background()
    asyncio.run(serve(cluster, options, commands, tell))


def _show(line: str) -> None:
    try:
        click.echo(line)
    except UnicodeEncodeError:  # What nodes say last has letters that this host's locale may not have.
        click.echo(line.encode("ascii", "backslashreplace").decode())


def _trusted(file: Path) -> TrustedKeys:
    # Whoever checks no signature does not load the library for them.
    from kcontrol.apps.agent.trust import TrustedKeys

    return TrustedKeys(file)
