"""A process that begins again with its own command line, keeping its number and whoever
holds the other end of its input.

Only so is nothing left of a Spark application that has ended: its JVM, and what PySpark and user's code hold
of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import Any, NoReturn

from kcontrol.adapters.spark.internals import active_context, own_gateway
from kcontrol.adapters.spark.session.fork_server.starting import forks

JVM_END_TIMEOUT_S = 20.0
_ANEW = "KCONTROL_BEGUN_ANEW"
"""The environment variable by which a process knows that it has been here before."""


def end_jvm(gateway: Any) -> None:
    """End the JVM behind a gateway of PySpark's, if this process has started it."""
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(JVM_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_spark() -> None:
    """End the Spark session of this process and its JVM, if loading a pipeline's file has
    taken one; it can't have another."""
    context, gateway = active_context(), own_gateway()
    if context is not None:
        context.stop()
    if gateway is not None:
        end_jvm(gateway)


def begin_anew() -> NoReturn:
    """Run this process's command again, in its place."""
    sys.stdout.flush()
    sys.stderr.flush()
    forks.close()  # It is no child that whoever comes next would know of.
    os.environ[_ANEW] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def has_begun_anew() -> bool:
    """Whether this process is one that `begin_anew` has made. Told once: nothing that it starts is."""
    return os.environ.pop(_ANEW, "") != ""
