"""`kcontrol broker`: the embedded broker in the foreground."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import click

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.cli.options import data_home, debug_option, json_option
from kcontrol.errors import ClusterError

_LOOK_EVERY_S = 0.5


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port for clients. Default: a free one.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Where its data is kept. Default: broker/ in the user's data directory."
)
@json_option
@debug_option
def broker(port: int | None, data_dir: Path | None, as_json: bool) -> None:
    """Run a real Apache Kafka of one node on this machine until Ctrl-C; print its address when it is ready.

    It listens on 127.0.0.1 only. Its data is kept, so the next start goes on with it.

    \b
    Example:  kcontrol broker --port 9092 --data-dir /var/lib/kcontrol/broker
    """
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with EmbeddedBroker(data_dir or data_home() / "broker", port) as running:
        facts = {"bootstrap_servers": running.bootstrap_servers, "data_dir": str(running.data_dir), "pid": running.pid}
        click.echo(json.dumps(facts) if as_json else f"{running.bootstrap_servers} is ready; its data is in {running.data_dir}")
        while not ended.wait(_LOOK_EVERY_S):
            if not running.is_running:
                raise ClusterError(f"The broker has ended by itself; its log is {running.log_file}")
