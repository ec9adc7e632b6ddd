"""`kcontrol insert`: ad-hoc rows for an input, all or none."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from pathlib import Path

import click

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.push.log import KafkaPushLog
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.cli.desired import timeout_option
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.cli.wait import committed_steps
from kcontrol.core.model import InputSpec
from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.bodies import AVRO, CSV, JSON, NDJSON, PARQUET, rows_of
from kcontrol.requests.push.limits import BodyLimits
from kcontrol.requests.push.log import Push, Pushed, check_request_id
from kcontrol.requests.push.rules import rules_for
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.completion import parse_token

MAX_FILE_BYTES = 64 << 20
LIMITS = BodyLimits(rows=1_000_000, unpacked_bytes=256 << 20)
FORMATS = {"ndjson": NDJSON, "json": JSON, "csv": CSV, "avro": AVRO, "parquet": PARQUET}
_ENDINGS = {f".{name}": name for name in FORMATS} | {".jsonl": "ndjson"}


@click.command()
@click.argument("pipeline")
@click.argument("input_name", metavar="INPUT")
@click.argument("file")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    help="What FILE holds: an object a line, an array of objects, CSV with a line of names, an Avro file, or Parquet.  "
    "[default: by its ending; for - ndjson]",
)
@click.option(
    "--key",
    default="",
    help="Field of which the rows' keys are made.  [default: what the input is partitioned by, else none]",
)
@click.option(
    "--id",
    "request_id",
    help="Id of this request, as the Idempotency-Key of a push over HTTP: the same one again inserts nothing for 24 hours.  "
    "[default: one is made up]",
)
@click.option("--wait", "waits", is_flag=True, help="Wait until all rows are in committed steps.")
@timeout_option
@cluster_option
@json_option
@debug_option
def insert(
    pipeline: str,
    input_name: str,
    file: str,
    format_name: str | None,
    key: str,
    request_id: str | None,
    waits: bool,
    timeout_s: float,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Insert the rows of FILE (- is the standard input) into INPUT of PIPELINE: all or none.

    They are checked against the input's schema and written into its topic, which is what replays read. If it is not known
    whether they were written (exit code 3), give the same command with the --id that it names.

    \b
    Example:  kcontrol insert orders orders new.csv --wait
    """
    # An empty one is that of a script whose variable is not set: with one that is made up, its next try would insert again.
    request_id = check_request_id(str(uuid.uuid4()) if request_id is None else request_id)
    media_type = FORMATS[format_name or _format_of(file)]
    body = _read(file)
    pushed = asyncio.run(_insert(cluster, pipeline, input_name, body, media_type, key, request_id))
    request = pushed.request
    steps: list[int | None] = []
    if waits:
        # The wait may end otherwise; whoever then gave them again under another id would have them twice.
        click.echo(f"request {request_id}: {request.records} rows are written; waiting for steps", err=True)
        steps = asyncio.run(committed_steps(cluster, pipeline, parse_token(request.token), timeout_s))
    facts = {
        "pipeline": pipeline,
        "input": input_name,
        "request_id": request_id,
        "records": request.records,
        "token": request.token,
        "replayed": pushed.replayed,
        "steps": steps,
    }
    known = "were there already, by this id" if pushed.replayed else "are written"
    behind = f", in committed steps up to {max(each or 0 for each in steps)}" if steps else ""
    text = f"pipeline {pipeline}, input {input_name}: {request.records} rows {known}{behind}; token {request.token}"
    click.echo(json.dumps(facts) if as_json else text)


async def _insert(
    cluster: ClusterSettings,
    pipeline: str,
    input_name: str,
    body: bytes,
    media_type: str,
    key: str,
    request_id: str,
) -> Pushed:
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        item: InputSpec = logs.input(input_name)
    rows = rows_of(body, media_type, rules_for(pipeline, item, key, LIMITS))
    log = KafkaPushLog(cluster, SystemClock())
    try:
        return await log.push(Push(pipeline, item, request_id, rows))
    finally:
        await log.close()


def _format_of(file: str) -> str:
    if file == "-":
        return "ndjson"
    ending = Path(file).suffix.lower()
    if ending not in _ENDINGS:
        raise ConfigurationError(
            f"{file}: its ending {ending!r} does not say what it holds: give --format, one of {', '.join(FORMATS)}"
        )
    return _ENDINGS[ending]


def _read(file: str) -> bytes:
    try:
        if file == "-":
            body = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                body = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{file}: can't be read: {error.strerror}") from error
    if len(body) > MAX_FILE_BYTES:
        raise ConfigurationError(
            f"{file}: has more than {MAX_FILE_BYTES} bytes, which is the most of one request: insert it in parts"
        )
    return body
