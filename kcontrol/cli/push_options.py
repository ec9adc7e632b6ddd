"""Options of a server that takes rows: how large, how many, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.limits import LONGEST_MS, REQUEST_BYTES, UNPACKED_BYTES, BodyLimits, MemoryLimits

_DEFAULTS = HttpLimits()
_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--max-push-bytes",
        type=click.IntRange(0, 256 << 20),
        default=_DEFAULTS.max_push_bytes,
        show_default=True,
        help="Bytes in the body of POST .../ingress/INPUT, by which rows are pushed. With more than 0, such as 8388608, "
        "whoever may ask this server can write into pipelines' inputs.",
    ),
    click.option(
        "--max-queued-rows",
        type=click.IntRange(1, 1_000_000_000),
        default=_DEFAULTS.max_queued_rows,
        show_default=True,
        help="Rows of an input that may wait for a step; beyond that, rows that are pushed get 429.",
    ),
    click.option(
        "--max-push-rows",
        type=click.IntRange(1, 10_000_000),
        default=_DEFAULTS.bodies.rows,
        show_default=True,
        help="Rows in a body that is pushed; more get 422.",
    ),
    click.option(
        "--max-row-bytes",
        type=click.IntRange(1, 256 << 20),
        default=_DEFAULTS.bodies.row_bytes,
        show_default=True,
        help="Bytes of a row that is pushed, key and value; more get 422. The topic's max.message.bytes holds, too.",
    ),
    click.option(
        "--max-unpacked-bytes",
        type=click.IntRange(1, 4 << 30),
        help="Bytes of a body of Avro or Parquet once it is unpacked, and of its rows as JSON; more get 422.  "
        f"[default: {UNPACKED_BYTES}, or --max-push-bytes if that is more]",
    ),
    click.option(
        "--remember-pushes",
        "remember_s",
        metavar="SECONDS",
        type=click.IntRange(1),
        default=_DEFAULTS.remembered.remember_ms // 1000,
        show_default=True,
        help="Remember a request that has pushed rows for so long: the same one again pushes nothing. "
        f"{LONGEST_MS // 1000} at most.",
    ),
    click.option(
        "--max-remembered-pushes",
        type=click.IntRange(1, 1_000_000_000),
        default=_DEFAULTS.remembered.requests,
        show_default=True,
        help=f"Requests that are remembered, each in about {REQUEST_BYTES} bytes of memory; beyond that, requests get 429.",
    ),
)


def push_options(command: _Command) -> _Command:
    """All of them, as the parameters of `with_push_limits`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def with_push_limits(
    limits: HttpLimits,
    *,
    max_push_bytes: int,
    max_queued_rows: int,
    max_push_rows: int,
    max_row_bytes: int,
    max_unpacked_bytes: int | None,
    remember_s: int,
    max_remembered_pushes: int,
) -> HttpLimits:
    """Raises ConfigurationError: there can't be such limits."""
    if max_unpacked_bytes is not None and max_unpacked_bytes < max_push_bytes:
        raise ConfigurationError(
            f"--max-unpacked-bytes is {max_unpacked_bytes}, less than the {max_push_bytes} of --max-push-bytes: bodies "
            "between the two could never be taken"
        )
    unpacked = max_unpacked_bytes or max(UNPACKED_BYTES, max_push_bytes)
    return replace(
        limits,
        max_push_bytes=max_push_bytes,
        max_queued_rows=max_queued_rows,
        bodies=BodyLimits(max_push_rows, max_row_bytes, unpacked),
        remembered=MemoryLimits(remember_s * 1000, max_remembered_pushes),
    )
