"""`kcontrol broker`: the embedded broker, or a cluster of several, in the foreground."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import click

from kcontrol.adapters.kafka.embedded import EmbeddedBroker, EmbeddedCluster
from kcontrol.cli.options import debug_option, json_option
from kcontrol.errors import ClusterError
from kcontrol.settings.places import data_home

_LOOK_EVERY_S = 0.5
_MAX_BROKERS = 9


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port for clients, of the first broker. Default: a free one.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, _MAX_BROKERS),
    default=1,
    show_default=True,
    help="How many form the cluster: 1 or 3.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Where its data is kept. Default: broker/, or brokers-N/, in the user's data directory.",
)
@json_option
@debug_option
def broker(port: int | None, brokers: int, data_dir: Path | None, as_json: bool) -> None:
    """Run a real Apache Kafka on this machine until Ctrl-C; print its address when it is ready.

    It listens on 127.0.0.1 only. Its data is kept, so the next start goes on with it. With --brokers 3 it is
    a cluster of three processes as production has it: every topic on all three, a write counts once two have
    it. One that ends is started again.

    \b
    Example:  kcontrol broker --port 9092 --data-dir /var/lib/kcontrol/broker
    """
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    if brokers == 1:
        _one(EmbeddedBroker(data_dir or data_home() / "broker", port), ended, as_json)
    else:
        _several(
            EmbeddedCluster(data_dir or data_home() / f"brokers-{brokers}", brokers, port), ended, as_json
        )


def _one(broker: EmbeddedBroker, ended: threading.Event, as_json: bool) -> None:
    with broker as running:
        facts = {
            "bootstrap_servers": running.bootstrap_servers,
            "data_dir": str(running.data_dir),
            "pid": running.pid,
        }
        click.echo(
            json.dumps(facts)
            if as_json
            else f"{running.bootstrap_servers} is ready; its data is in {running.data_dir}"
        )
        while not ended.wait(_LOOK_EVERY_S):
            if not running.is_running:
                raise ClusterError(f"The broker has ended by itself; its log is {running.log_file}")


def _several(cluster: EmbeddedCluster, ended: threading.Event, as_json: bool) -> None:
    with cluster as running:
        each = {
            node: {"bootstrap_servers": one.bootstrap_servers, "pid": one.pid}
            for node, one in running.brokers.items()
        }
        facts = {
            "bootstrap_servers": running.bootstrap_servers,
            "data_dir": str(running.data_dir),
            "brokers": each,
        }
        if as_json:
            click.echo(json.dumps(facts))
        else:
            click.echo(f"{running.bootstrap_servers} are ready; their data is in {running.data_dir}")
            for node, one in running.brokers.items():
                click.echo(f"broker {node}: {one.bootstrap_servers}, process {one.pid}")
        while not ended.wait(_LOOK_EVERY_S):
            for node, one in running.brokers.items():
                if not one.is_running:
                    click.echo(
                        f"Broker {node} has ended; its log is {one.log_file}. It is started again.", err=True
                    )
                    one.start()
