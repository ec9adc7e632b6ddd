"""`kcontrol run`: start what is missing, keep it running, show what happens."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.apps.supervisor.children import MAX_SHORT_LIVES, SHORT_LIFE_S
from kcontrol.apps.supervisor.progress import Reporter, make_reporter
from kcontrol.apps.supervisor.running import Running, RunOptions
from kcontrol.cli.options import debug_option, find_cluster, json_option, nodes_option
from kcontrol.cli.source import check_number, load_definition, sized
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home
from kcontrol.settings.toml import find_bootstrap_servers


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT,...",
    help="Address of Kafka. Without any, a broker is started here.",
)
@click.option("--until-caught-up", is_flag=True, help="End when the input that is there now is committed.")
@nodes_option
@click.option(
    "--node",
    "chosen",
    type=click.IntRange(0),
    multiple=True,
    help="Run this node here, not all of them. Repeatable.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Start a second process for each node, which takes over within seconds when the first dies.",
)
@click.option(
    "--new",
    is_flag=True,
    help="Nodes of --node that the pipeline has not yet wait until its layout is changed (kcontrol layout --nodes).",
)
@click.option(
    "--instead",
    is_flag=True,
    help="Nodes of --node wait until they are to be it in place of other processes (kcontrol upgrade).",
)
@click.option("--resume", is_flag=True, help="Go on after a halt.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="For broker, Spark and logs. Default: the user's data directory.",
)
@click.option(
    "--master", metavar="URL", help="Spark master. Default: local[*]; several nodes share the processors out."
)
@click.option(
    "--create-outputs",
    type=click.IntRange(1),
    metavar="N",
    help="Create missing output topics, of N partitions.",
)
@click.option(
    "--max-short-lives",
    type=click.IntRange(1, 1_000_000),
    default=MAX_SHORT_LIVES,
    show_default=True,
    help=f"A process that dies so often in a row, each time within {SHORT_LIFE_S:g} s, is given up, and "
    "this ends.",
)
@json_option
@debug_option
def run(
    file: Path,
    bootstrap_servers: str | None,
    until_caught_up: bool,
    nodes: int | None,
    chosen: tuple[int, ...],
    standby: bool,
    new: bool,
    instead: bool,
    resume: bool,
    data_dir: Path | None,
    master: str | None,
    create_outputs: int | None,
    max_short_lives: int,
    as_json: bool,
) -> None:
    """Run the pipeline that FILE defines: start what is missing (broker, coordinator, nodes) and show
    progress.

    What it starts, it starts again if it dies, says so, and ends with itself. A pipeline that was paused or
    stopped goes on. When it is stopped meanwhile (kcontrol stop), its nodes stand by until it is to run again
    (kcontrol resume).

    \b
    Example:  kcontrol run examples/flights.py --until-caught-up
              kcontrol run events.py --nodes 3 --standby
    """
    pipeline = sized(load_definition(file, master, as_json), nodes)
    options = RunOptions(
        file=file.resolve(),
        nodes=_which(pipeline, chosen, new=new, instead=instead, standby=standby),
        own_size=nodes,
        until_caught_up=until_caught_up,
        resume=resume,
        data_dir=(data_dir or data_home()).resolve(),
        master=master,
        max_short_lives=max_short_lives,
        standby=standby,
        new=new,
        instead=instead,
        create_outputs=create_outputs,
    )
    with (
        make_reporter(pipeline.name, as_json) as reporter,
        _cluster(bootstrap_servers, options.data_dir, reporter) as cluster,
    ):
        asyncio.run(Running(pipeline, cluster, options, reporter).run())


def _which(pipeline: Pipeline, chosen: Sequence[int], **waits: bool) -> tuple[int, ...]:
    asked = [name for name, is_asked in waits.items() if is_asked]
    if "instead" in asked and len(asked) > 1:
        other = next(name for name in asked if name != "instead")
        raise ConfigurationError(
            f"--instead is for nodes that another process is: not together with --{other}"
        )
    waits_for = next((name for name in asked if name != "standby"), None)
    if waits_for is not None and not chosen:
        raise ConfigurationError(f"--{waits_for} is for the nodes of --node: say which")
    for node in () if waits_for is not None else chosen:
        check_number(pipeline, node)
    return tuple(sorted(set(chosen))) or tuple(range(pipeline.nodes))


@contextmanager
def _cluster(bootstrap_servers: str | None, data_dir: Path, reporter: Reporter) -> Iterator[ClusterSettings]:
    if find_bootstrap_servers(bootstrap_servers, os.environ, Path.cwd()) is not None:
        yield find_cluster(bootstrap_servers)
        return
    reporter.phase("starting a broker")
    with EmbeddedBroker(data_dir / "broker") as broker, _kept_running(broker, reporter):
        reporter.event(
            "broker",
            f"no Kafka address was given: started a broker at {broker.bootstrap_servers}; its data is "
            f"in {broker.data_dir}",
            bootstrap_servers=broker.bootstrap_servers,
            data_dir=str(broker.data_dir),
            pid=broker.pid,
            host=socket.gethostname(),
        )
        yield find_cluster(broker.bootstrap_servers)


@contextmanager
def _kept_running(broker: EmbeddedBroker, reporter: Reporter) -> Iterator[None]:
    """Start the broker again on its data whenever it dies."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            if not broker.is_running:
                broker.start()
                reporter.event(
                    "restarted", f"the broker died and was started again (pid {broker.pid})", pid=broker.pid
                )

    watcher = threading.Thread(target=watch, name="kcontrol-broker-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
