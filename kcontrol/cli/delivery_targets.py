"""The targets of `kcontrol deliver`, put together from its options."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kcontrol.apps.deliver.delivery import FIRST, NEXT, DeliveryOptions
from kcontrol.apps.deliver.target import Target
from kcontrol.core.model import OutputSpec
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings

if TYPE_CHECKING:
    from kcontrol.adapters.lake.target import StepTable

BATCH_ROWS, PART_RECORDS, LAKE_BATCH_ROWS = 10_000, 500, 50_000
_POSTGRES, _WEBHOOK = ("postgresql://", "postgres://"), ("https://", "http://")
_DELTA, _PARQUET, _ICEBERG = "delta://", "parquet://", "iceberg://"
_OBJECT_STORES = ("s3://", "s3a://", "gs://", "gcs://", "abfs://", "abfss://", "az://", "adl://")
_KINDS = {
    **dict.fromkeys(_POSTGRES, "a database"),
    **dict.fromkeys(_WEBHOOK, "a webhook"),
    _DELTA: "a table of Delta Lake",
    _PARQUET: "a directory of Parquet files",
    _ICEBERG: "a table of Iceberg",
}
_OF_POSTGRES = {
    "table": "--table",
    "mode": "--mode",
    "keys": "--key",
    "columns": "--columns",
    "delete_when": "--delete-when",
    "password_file": "--password-file",
    "connect_s": "--connect-timeout",
    "statement_s": "--statement-timeout",
    "lock_s": "--lock-timeout",
}
_OF_WEBHOOKS = {
    "headers_file": "--headers-file",
    "signing_key_file": "--signing-key-file",
    "ca_file": "--ca-file",
    "certificate_file": "--certificate-file",
    "key_file": "--key-file",
    "max_body_bytes": "--max-body-bytes",
    "request_s": "--request-timeout",
}
_NAME, _ADOPT, _CREATE = {"name": "--name"}, {"adopt": "--adopt"}, {"create": "--create"}
_OPTIONS = {
    **_OF_POSTGRES,
    **_OF_WEBHOOKS,
    **_NAME,
    **_ADOPT,
    **_CREATE,
}
_TAKES = {
    **dict.fromkeys(_POSTGRES, _OF_POSTGRES | _ADOPT),
    **dict.fromkeys(_WEBHOOK, _OF_WEBHOOKS | _NAME),
    _DELTA: _NAME | _ADOPT | _CREATE,
    _PARQUET: _NAME | _CREATE,
    _ICEBERG: _NAME | _ADOPT | _CREATE,
}
"""Of the options that are not for all."""


@dataclass(frozen=True, slots=True)
class AskedDelivery:
    """The options, as click has read them."""

    pipeline: str
    address: str
    output: str
    table: str | None
    name: str | None
    mode: str
    keys: str | None
    columns: str | None
    value_format: str | None
    schema_file: Path | None
    delete_when: str | None
    on_bad_row: str
    start: str | None
    resync: bool
    adopt: bool
    create: str | None
    password_file: Path | None
    headers_file: Path | None
    signing_key_file: Path | None
    ca_file: Path | None
    certificate_file: Path | None
    key_file: Path | None
    batch_rows: int | None
    max_body_bytes: int
    max_bytes_held: int
    request_s: float
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
        start = self.start or FIRST
        if start not in (FIRST, NEXT) and not (start.isdecimal() and int(start) >= 1):
            raise ConfigurationError(f"--start {start}: give first, next, or the number of a step")
        return DeliveryOptions(
            start=start,
            resync=self.resync,
            give_up_s=self.give_up_s,
            longest_wait_s=self.longest_wait_s,
            poll_s=min(2.0, self.silence_s / 4),
            max_bytes_held=self.max_bytes_held,
        )


@dataclass(frozen=True, slots=True)
class AskedTarget:
    """name: by which deliveries of an output are told apart, in `kcontrol status` and metrics."""

    target: Target
    name: str


@cache
def this_process() -> str:
    """Who delivers, for others; no two are alike."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def check_options(address: str, given: Collection[str]) -> None:
    """given: the parameters that were given, not left to their defaults. Raises ConfigurationError: the address is of no
    target, or an option is of another one."""
    kind = _kind(address)
    for parameter, option in _OPTIONS.items():
        if parameter in given and parameter not in _TAKES[kind]:
            raise ConfigurationError(f"{option} says nothing to {_KINDS[kind]}: leave it out")


def target_of(asked: AskedDelivery, output: OutputSpec) -> AskedTarget:
    """Raises ConfigurationError."""
    kind = _kind(asked.address)
    if kind in _POSTGRES:
        return _postgres(asked, output)
    return _webhook(asked, output) if kind in _WEBHOOK else _lake(asked, output, kind)


def _kind(address: str) -> str:
    found = next((each for each in _KINDS if address.startswith(each)), None)
    place = address.removeprefix(found) if found in (_DELTA, _PARQUET) else address
    if place.startswith(_OBJECT_STORES):
        raise ConfigurationError(
            f"--to {address}: kcontrol deliver writes Delta Lake and Parquet to file systems only, where it is "
            "proved that each step is there once: give the path of a file system, or a table of Iceberg, whose "
            f"catalog compares and whose files may be there ({_ICEBERG}CATALOG/NAMESPACE.TABLE)"
        )
    if found is None:
        raise ConfigurationError(
            "--to must begin with postgresql://, https://, http://, delta:///, parquet:/// or iceberg://"
        )
    return found


def _postgres(asked: AskedDelivery, output: OutputSpec) -> AskedTarget:
    """Raises ConfigurationError."""
    from kcontrol.adapters.postgres.library import load_psycopg

    load_psycopg()
    from kcontrol.adapters.postgres.rows import RowRules
    from kcontrol.adapters.postgres.session import DatabaseAddress, SessionLimits
    from kcontrol.adapters.postgres.target import PostgresOptions, PostgresTarget

    if asked.table is None:
        raise ConfigurationError("--to names a database: give its table, too, with --table NAME")
    keys = _names(asked.keys)
    if (asked.mode == "upsert") != bool(keys):
        raise ConfigurationError("--mode upsert and --key COLUMN,... need each other: give both, or neither")
    if asked.delete_when is not None and not keys:
        raise ConfigurationError(
            "--delete-when needs --mode upsert: a row that is deleted is found by its key"
        )
    rules = RowRules(
        asked.value_format or output.value_format,
        _schema(asked),
        keys,
        None if asked.delete_when is None else _when(asked.delete_when),
    )
    options = PostgresOptions(
        DatabaseAddress(asked.address, asked.password_file),
        asked.table,
        rules,
        columns=_names(asked.columns),
        skips_bad_rows=asked.on_bad_row == "skip",
        batch_rows=asked.batch_rows or BATCH_ROWS,
        silence_s=asked.silence_s,
        limits=SessionLimits(asked.connect_s, asked.statement_s, asked.lock_s),
        adopts=asked.adopt,
    )
    target = PostgresTarget(options, asked.pipeline, asked.output, this_process())
    return AskedTarget(target, asked.table)


def _webhook(asked: AskedDelivery, output: OutputSpec) -> AskedTarget:
    """Raises ConfigurationError."""
    from kcontrol.adapters.kafka.admin.standing import GroupStanding
    from kcontrol.adapters.webhook.address import WebhookAddress, read_secrets, tls
    from kcontrol.adapters.webhook.bodies import Cut
    from kcontrol.adapters.webhook.target import WebhookOptions, WebhookTarget

    address = WebhookAddress(asked.address)
    if 2 * asked.request_s > asked.silence_s:
        raise ConfigurationError(
            f"--request-timeout {asked.request_s:g} and --silence-timeout {asked.silence_s:g}: another process would take "
            "the delivery over while this one waits for an answer; a request may take half of the silence at most"
        )
    options = WebhookOptions(
        address,
        asked.value_format or output.value_format,
        _schema(asked),
        Cut(asked.batch_rows or PART_RECORDS, asked.max_body_bytes),
        read_secrets(asked.headers_file, asked.signing_key_file),
        tls(asked.ca_file, asked.certificate_file, asked.key_file),
        skips_bad_records=asked.on_bad_row == "skip",
        timeout_s=asked.request_s,
        has_start=asked.start is not None,
    )
    name = asked.name or address.name
    standing = GroupStanding(asked.cluster, asked.pipeline, asked.output, name, asked.silence_s)
    return AskedTarget(WebhookTarget(options, asked.pipeline, asked.output, standing), name)


def _lake(asked: AskedDelivery, output: OutputSpec, kind: str) -> AskedTarget:
    """Raises ConfigurationError."""
    from kcontrol.adapters.kafka.admin.standing import GroupStanding
    from kcontrol.adapters.lake.rows import BatchRules
    from kcontrol.adapters.lake.target import LakeTarget

    table = _iceberg(asked) if kind == _ICEBERG else _files(asked, kind)
    rules = BatchRules(
        asked.value_format or output.value_format,
        _schema(asked),
        asked.batch_rows or LAKE_BATCH_ROWS,
        skips_bad_rows=asked.on_bad_row == "skip",
    )
    name = asked.name or str(table)
    standing = GroupStanding(
        asked.cluster, asked.pipeline, asked.output, f"{table.kind}:{name}", asked.silence_s
    )
    return AskedTarget(LakeTarget(table, standing, asked.pipeline, rules), name)


def _files(asked: AskedDelivery, kind: str) -> StepTable:
    """Raises ConfigurationError."""
    from kcontrol.adapters.lake.delta import DeltaSteps
    from kcontrol.adapters.lake.parquet import ParquetSteps

    path = Path(asked.address.removeprefix(kind))
    if not path.is_absolute() or ".." in path.parts or path == Path("/"):
        raise ConfigurationError(
            f"--to {asked.address}: give the whole path of a directory, such as {kind}/data/totals"
        )
    if kind == _DELTA:
        return DeltaSteps(path, asked.pipeline, asked.output, asked.create, adopts=asked.adopt)
    return ParquetSteps(path, asked.pipeline, asked.output, asked.create)


def _iceberg(asked: AskedDelivery) -> StepTable:
    """Raises ConfigurationError."""
    from kcontrol.adapters.lake.iceberg import IcebergSteps

    catalog, _, table = asked.address.removeprefix(_ICEBERG).partition("/")
    if not catalog or not all(table.split(".")) or "." not in table or "/" in table:
        raise ConfigurationError(
            f"--to {asked.address}: give a catalog of pyiceberg's configuration, a namespace and a table, such as "
            f"{_ICEBERG}lake/shop.totals"
        )
    return IcebergSteps(catalog, table, asked.pipeline, asked.output, asked.create, adopts=asked.adopt)


def _schema(asked: AskedDelivery) -> str:
    return "" if asked.schema_file is None else asked.schema_file.read_text(encoding="utf-8")


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in (text or "").split(","))))


def _when(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not field or not equals:
        raise ConfigurationError(f"--delete-when {text}: give FIELD=TEXT, such as op=d")
    return field, value
