"""`kcontrol deliver`: outputs of a pipeline into a target outside of Kafka, step by step."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes, ToldDelivery
from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.apps.ask import definition
from kcontrol.apps.deliver.delivery import FIRST, NEXT, Delivery, DeliveryOptions
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.deliver.progress import DeliveryObserver, DeliveryState, Progress
from kcontrol.apps.deliver.target import Target
from kcontrol.apps.deliver.telling import telling
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.cli.listening import listen, listen_options
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.core.model import OutputSpec, PipelineSpec
from kcontrol.errors import ConfigurationError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.deliver")

_POSTGRES = ("postgresql://", "postgres://")


@click.command()
@click.argument("pipeline")
@click.option(
    "--to",
    "address",
    required=True,
    metavar="URL",
    help="Where to: postgresql://USER@HOST:PORT/DATABASE, with libpq's parameters such as ?sslmode=verify-full. Without "
    "a password: give it as PGPASSWORD, in ~/.pgpass, or with --password-file.",
)
@click.option("--output", required=True, metavar="NAME", help="The pipeline's output that is delivered.")
@click.option(
    "--table",
    required=True,
    metavar="NAME",
    help="The table, with its schema if it needs one. It must exist.",
)
@click.option(
    "--mode",
    type=click.Choice(["append", "upsert"]),
    default="append",
    show_default=True,
    help="append: each record is a row more. upsert: it takes the place of the row with the same key.",
)
@click.option(
    "--key", "keys", metavar="COLUMN,...", help="For upsert: the columns of the key, as in a unique index."
)
@click.option(
    "--columns",
    metavar="COLUMN,...",
    help="The columns that are written. Default: all but those that the database fills in by itself.",
)
@click.option(
    "--format",
    "value_format",
    type=click.Choice(["json", "avro", "raw"]),
    help="Of the values. Default: as the output has it; raw has the columns key and value.",
)
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="For Avro: a file with the schema of the values.",
)
@click.option(
    "--delete-when",
    metavar="FIELD=TEXT",
    help="For upsert: records whose field has this text delete their row. Null values always do.",
)
@click.option(
    "--on-bad-row",
    type=click.Choice(["halt", "skip"]),
    default="halt",
    show_default=True,
    help="What to do with a record that is no row of the table: halt, and nothing of its step is applied; or leave it out "
    "and count it.",
)
@click.option(
    "--start",
    default=FIRST,
    show_default=True,
    metavar="first|next|STEP",
    help="Where a target begins to which nothing was delivered yet: with step 1, with the step after the newest, or with "
    "this one.",
)
@click.option(
    "--resync", is_flag=True, help="Begin anew: forget what was delivered. The table must be empty."
)
@click.option(
    "--adopt", is_flag=True, help="The table was restored, and holds the steps that were delivered."
)
@click.option(
    "--password-file", type=click.Path(path_type=Path), help="File whose first line is the password."
)
@click.option(
    "--batch-rows",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="Rows that are sent at a time.",
)
@click.option(
    "--max-bytes-held",
    type=click.IntRange(1 << 20, 1 << 30),
    default=16 << 20,
    show_default=True,
    help="About so much of a step is in memory at a time.",
)
@click.option(
    "--connect-timeout",
    "connect_s",
    type=click.IntRange(2, 600),
    default=10,
    show_default=True,
    help="Seconds for a connection.",
)
@click.option(
    "--statement-timeout",
    "statement_s",
    type=click.FloatRange(1, 86_400),
    default=60.0,
    show_default=True,
    help="Seconds for a statement, such as a batch, or the upsert of a whole step.",
)
@click.option(
    "--lock-timeout",
    "lock_s",
    type=click.FloatRange(0.1, 3_600),
    default=20.0,
    show_default=True,
    help="Seconds to wait for a lock that others hold in the database.",
)
@click.option(
    "--silence-timeout",
    "silence_s",
    type=click.FloatRange(5, 3_600),
    default=30.0,
    show_default=True,
    help="Seconds without a sign of life after which another process takes the delivery over.",
)
@click.option(
    "--longest-wait",
    "longest_wait_s",
    type=click.FloatRange(0.2, 600),
    default=10.0,
    show_default=True,
    help="Seconds between two tries while the target is away, at most.",
)
@click.option(
    "--give-up-after",
    "give_up_s",
    type=click.FloatRange(0, 31_536_000),
    default=86_400.0,
    show_default=True,
    help="Seconds that the target may be away in one go.",
)
@listen_options("this process's metrics", "metrics-", None)
@lifeline_option
@cluster_option
@json_option
@debug_option
def deliver(**given: Any) -> None:
    """Deliver an output of PIPELINE to a table of PostgreSQL until Ctrl-C: each committed step in one transaction of the
    database, together with its number, so that it is there once, in order, whoever dies when.

    Any number may run for the same table: one delivers, the others stand by. What was delivered is in the table
    kcontrol_steps beside it.

    \b
    Examples:  kcontrol deliver orders --to postgresql://etl@db:5432/shop --output totals --table totals
               kcontrol deliver orders --to postgresql://etl@db/shop --output totals --table totals --mode upsert --key customer
    """
    asked = AskedDelivery(**given)
    spec = client_for(asked.cluster).start(definition(asked.cluster, asked.pipeline)).result()
    target = postgres_target(asked, output_of(spec, asked.output))
    run_delivery(asked, target)


@dataclass(frozen=True, slots=True)
class AskedDelivery:
    """The options, as click has read them."""

    pipeline: str
    address: str
    output: str
    table: str
    mode: str
    keys: str | None
    columns: str | None
    value_format: str | None
    schema_file: Path | None
    delete_when: str | None
    on_bad_row: str
    start: str
    resync: bool
    adopt: bool
    password_file: Path | None
    batch_rows: int
    max_bytes_held: int
    connect_s: int
    statement_s: float
    lock_s: float
    silence_s: float
    longest_wait_s: float
    give_up_s: float
    host: str
    port: int | None
    token_file: Path | None
    cluster: ClusterSettings
    as_json: bool

    def delivery_options(self) -> DeliveryOptions:
        """Raises ConfigurationError."""
        if self.start not in (FIRST, NEXT) and not (self.start.isdecimal() and int(self.start) >= 1):
            raise ConfigurationError(f"--start {self.start}: give first, next, or the number of a step")
        return DeliveryOptions(
            start=self.start,
            resync=self.resync,
            give_up_s=self.give_up_s,
            longest_wait_s=self.longest_wait_s,
            poll_s=min(2.0, self.silence_s / 4),
            max_bytes_held=self.max_bytes_held,
        )


def output_of(spec: PipelineSpec, name: str) -> OutputSpec:
    """Raises NotFoundError."""
    found = next((each for each in spec.outputs if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in spec.outputs)
        raise NotFoundError(f"pipeline {spec.pipeline!r} has no output {name!r}; it has {known}")
    return found


def postgres_target(asked: AskedDelivery, output: OutputSpec) -> Target:
    """Raises ConfigurationError."""
    from kcontrol.adapters.postgres.library import load_psycopg

    if not asked.address.startswith(_POSTGRES):
        raise ConfigurationError("--to must begin with postgresql://")
    load_psycopg()
    from kcontrol.adapters.postgres.rows import RowRules
    from kcontrol.adapters.postgres.session import DatabaseAddress, SessionLimits
    from kcontrol.adapters.postgres.target import PostgresOptions, PostgresTarget

    keys = _names(asked.keys)
    if (asked.mode == "upsert") != bool(keys):
        raise ConfigurationError("--mode upsert and --key COLUMN,... need each other: give both, or neither")
    if asked.delete_when is not None and not keys:
        raise ConfigurationError(
            "--delete-when needs --mode upsert: a row that is deleted is found by its key"
        )
    rules = RowRules(
        asked.value_format or output.value_format,
        "" if asked.schema_file is None else asked.schema_file.read_text(encoding="utf-8"),
        keys,
        None if asked.delete_when is None else _when(asked.delete_when),
    )
    options = PostgresOptions(
        DatabaseAddress(asked.address, asked.password_file),
        asked.table,
        rules,
        columns=_names(asked.columns),
        skips_bad_rows=asked.on_bad_row == "skip",
        batch_rows=asked.batch_rows,
        silence_s=asked.silence_s,
        limits=SessionLimits(asked.connect_s, asked.statement_s, asked.lock_s),
        adopts=asked.adopt,
    )
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
    return PostgresTarget(options, asked.pipeline, asked.output, holder)


def run_delivery(asked: AskedDelivery, target: Target) -> None:
    """Until a signal ends it. Raises what `Delivery.run` does."""
    watch, options = LogWatch(asked.cluster, asked.pipeline), asked.delivery_options()
    progress = Progress()

    def told() -> ToldDelivery:
        now = progress.facts
        return ToldDelivery(
            output=asked.output,
            target=asked.table,
            kind=target.kind,
            guarantee=target.guarantee.value,
            state=now.state.value,
            step=now.step,
            lag_s=watch.lag_s,
            reason=now.reason,
            at_ms=SystemClock().now_ms(),
        )

    with ExitStack() as stack:
        if asked.port is not None:
            stack.enter_context(_metrics(asked, target, progress, watch))
        delivery = Delivery(asked.cluster, asked.pipeline, asked.output, target, options, progress, watch)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: delivery.stop())
        facts = {
            "delivery": "starting",
            "pipeline": asked.pipeline,
            "output": asked.output,
            "pid": os.getpid(),
        }
        text = f"delivering output {asked.output} of pipeline {asked.pipeline} to {target}"
        more = {"target": str(target), "guarantee": target.guarantee.value}
        click.echo(
            json.dumps({**facts, **more})
            if asked.as_json
            else f"{text}, {target.guarantee.value} (pid {os.getpid()})"
        )
        stack.enter_context(telling(DeliveryNotes(asked.cluster, asked.pipeline), told))
        delivery.run()


def _metrics(asked: AskedDelivery, target: Target, progress: Progress, watch: LogWatch) -> Any:
    # Whoever serves nothing need not wait for the libraries of a server.
    from kcontrol.adapters.metrics.deliveries import DeliveryLevels, DeliveryMetrics
    from kcontrol.adapters.metrics.making import make_registry
    from kcontrol.apps.http_server import serve_metrics

    registry = make_registry()
    listener = listen(asked.host, asked.port or 0, asked.token_file)

    def levels() -> DeliveryLevels:
        facts = progress.facts
        return DeliveryLevels(facts.state.value, facts.step, watch.lag_steps, watch.lag_s)

    labels = (asked.pipeline, asked.output, asked.table)
    observer: DeliveryObserver = DeliveryMetrics(
        registry, labels, target.guarantee.value, [each.value for each in DeliveryState], levels
    )
    progress.observe(observer)
    click.echo(
        json.dumps({"metrics": listener.url}) if asked.as_json else f"metrics at {listener.url}/metrics"
    )
    return listener.in_thread(lambda: serve_metrics(listener, registry))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in (text or "").split(","))))


def _when(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not field or not equals:
        raise ConfigurationError(f"--delete-when {text}: give FIELD=TEXT, such as op=d")
    return field, value
