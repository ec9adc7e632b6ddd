"""`kcontrol deliver`: outputs of a pipeline into a target outside of Kafka, step by step."""

from __future__ import annotations

import json
import logging
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.apps.ask import definition
from kcontrol.apps.deliver.delivery import Delivery
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.deliver.progress import DeliveryObserver, DeliveryState, Progress
from kcontrol.apps.deliver.telling import telling
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.cli.delivery_targets import (
    BATCH_ROWS,
    LAKE_BATCH_ROWS,
    PART_RECORDS,
    AskedDelivery,
    AskedTarget,
    check_options,
    target_of,
    this_process,
)
from kcontrol.cli.listening import listen
from kcontrol.cli.options import cluster_option, debug_option, json_option, listen_options
from kcontrol.core.model import OutputSpec, PipelineSpec
from kcontrol.errors import NotFoundError
from kcontrol.views.deliveries import ToldDelivery

_log = logging.getLogger("kcontrol.deliver")


@click.command()
@click.argument("pipeline")
@click.option(
    "--to",
    "address",
    required=True,
    metavar="URL",
    help="Where to: postgresql://USER@HOST:PORT/DATABASE, with libpq's parameters such as ?sslmode=verify-full; delta:///PATH "
    "for a table of Delta Lake; iceberg://CATALOG/NAMESPACE.TABLE for one of Iceberg; parquet:///PATH for Parquet files by "
    "step; or, for a webhook, https://HOST/PATH. Without a password: give it as PGPASSWORD, in ~/.pgpass, or with "
    "--password-file; for a webhook in a header, with --headers-file.",
)
@click.option("--output", required=True, metavar="NAME", help="The pipeline's output that is delivered.")
@click.option(
    "--table",
    metavar="NAME",
    help="For a database: the table, with its schema if it needs one. It must exist.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="For a webhook or files: the name of this delivery. Two to the same host and path need two. Default: host and path.",
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
    "--create",
    metavar="'COLUMN TYPE, ...'",
    help="For files: the columns of a table that is not there yet, such as 'customer STRING, amount DECIMAL(12,2)'.",
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
    metavar="first|next|STEP",
    help="Where a target begins to which nothing was delivered yet: with step 1, with the step after the newest, or with "
    "this one. Default: first, for a database; for a webhook it must be said.",
)
@click.option("--resync", is_flag=True, help="Begin anew: forget what was delivered. A table must be empty.")
@click.option(
    "--adopt",
    is_flag=True,
    help="The table was restored, and holds the steps that were delivered; with --resync (Delta Lake, Iceberg): those before "
    "--start.",
)
@click.option(
    "--password-file", type=click.Path(path_type=Path), help="File whose first line is the password."
)
@click.option(
    "--headers-file",
    type=click.Path(path_type=Path),
    help="For a webhook: file of lines NAME: VALUE, which every request has as headers, such as Authorization.",
)
@click.option(
    "--signing-key-file",
    type=click.Path(path_type=Path),
    help="For a webhook: file whose first line is the key by which bodies are signed, as Standard Webhooks have it.",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path),
    help="For a webhook: the authorities that its certificate may be of, in PEM. Default: the system's.",
)
@click.option(
    "--certificate-file",
    type=click.Path(path_type=Path),
    help="For a webhook: this client's own certificate, in PEM.",
)
@click.option(
    "--key-file", type=click.Path(path_type=Path), help="For a webhook: the key of --certificate-file."
)
@click.option(
    "--batch-rows",
    type=click.IntRange(1, 1_000_000),
    help=f"Rows that are sent at a time. Default: {BATCH_ROWS:,}, {PART_RECORDS} in a request of a webhook, "
    f"{LAKE_BATCH_ROWS:,} for files.",
)
@click.option(
    "--max-body-bytes",
    type=click.IntRange(1 << 10, 1 << 30),
    default=1 << 20,
    show_default=True,
    help="For a webhook: bytes of records in a request.",
)
@click.option(
    "--request-timeout",
    "request_s",
    type=click.FloatRange(0.1, 3_600),
    default=15.0,
    show_default=True,
    help="For a webhook: seconds that a request may take, from connecting to the end of the answer, however slowly that comes.",
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
    """Deliver an output of PIPELINE until Ctrl-C. To a table of PostgreSQL: each committed step in one transaction of the
    database, together with its number, so that it is there once, in order, whoever dies when. To a table of Delta Lake or
    Iceberg, or a directory of Parquet files: each by one atomic change that holds its number, so once, too. To a webhook: each
    committed step in order, at least once, by requests that are the same when they come again.

    Any number may run for the same target: one delivers, the others stand by. What was delivered is in the table
    kcontrol_steps beside the table, in the files' own log, or, for a webhook, in a consumer group of Kafka.

    \b
    Examples:  kcontrol deliver orders --to postgresql://etl@db:5432/shop --output totals --table totals
               kcontrol deliver orders --to postgresql://etl@db/shop --output totals --table totals --mode upsert --key customer
               kcontrol deliver orders --to delta:///data/totals --output totals --create 'customer STRING, orders BIGINT'
               kcontrol deliver orders --to iceberg://lake/shop.totals --output totals
               kcontrol deliver orders --to https://hooks.example.com/orders --output totals --start next
    """
    context = click.get_current_context()
    check_options(
        given["address"],
        {name for name in given if context.get_parameter_source(name) is not ParameterSource.DEFAULT},
    )
    asked = AskedDelivery(**given)
    spec = client_for(asked.cluster).start(definition(asked.cluster, asked.pipeline)).result()
    run_delivery(asked, target_of(asked, output_of(spec, asked.output)))


def output_of(spec: PipelineSpec, name: str) -> OutputSpec:
    """Raises NotFoundError."""
    found = next((each for each in spec.outputs if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in spec.outputs)
        raise NotFoundError(f"pipeline {spec.pipeline!r} has no output {name!r}; it has {known}")
    return found


def run_delivery(asked: AskedDelivery, to: AskedTarget) -> None:
    """Until a signal ends it. Raises what `Delivery.run` does."""
    target = to.target
    watch, options = LogWatch(asked.cluster, asked.pipeline), asked.delivery_options()
    progress = Progress()

    def told() -> ToldDelivery:
        now = progress.facts
        return ToldDelivery(
            output=asked.output,
            target=to.name,
            kind=target.kind,
            guarantee=target.guarantee.value,
            state=now.state.value,
            step=now.step,
            lag_s=watch.lag_s,
            reason=now.reason,
            at_ms=SystemClock().now_ms(),
            address=target.address,
            since_ms=now.since_ms,
            who=this_process(),
        )

    with ExitStack() as stack:
        if asked.port is not None:
            stack.enter_context(_metrics(asked, to, progress, watch))
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


def _metrics(asked: AskedDelivery, to: AskedTarget, progress: Progress, watch: LogWatch) -> Any:
    # Whoever serves nothing need not wait for the libraries of a server.
    from kcontrol.adapters.metrics.deliveries import DeliveryLevels, DeliveryMetrics
    from kcontrol.adapters.metrics.making import make_registry
    from kcontrol.apps.http_server import serve_metrics

    registry = make_registry()
    listener = listen(asked.host, asked.port or 0, asked.token_file)

    def levels() -> DeliveryLevels:
        facts = progress.facts
        return DeliveryLevels(facts.state.value, facts.step, watch.lag_steps, watch.lag_s)

    labels = (asked.pipeline, asked.output, to.name)
    observer: DeliveryObserver = DeliveryMetrics(
        registry, labels, to.target.guarantee.value, [each.value for each in DeliveryState], levels
    )
    progress.observe(observer)
    click.echo(
        json.dumps({"metrics": listener.url}) if asked.as_json else f"metrics at {listener.url}/metrics"
    )
    return listener.in_thread(lambda: serve_metrics(listener, registry))
