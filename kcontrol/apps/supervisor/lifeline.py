"""Ends a process when the one that started it is gone, however it went.

`kcontrol run` holds the other end of its children's standard input. The kernel closes it when that process
ends, even by SIGKILL, and the child reads the end of the file.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

GRACE_S = 15.0


def _start(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        threading.Thread(target=_wait_for_the_end, name="kcontrol-lifeline", daemon=True).start()


def _wait_for_the_end() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def lifeline_option(command: _Command) -> _Command:
    """--lifeline (hidden): end when standard input ends. Only for a process that leads its own process
    group."""
    return click.option(
        "--lifeline",
        is_flag=True,
        hidden=True,
        expose_value=False,
        callback=_start,
        help="End when standard input ends.",
    )(command)
