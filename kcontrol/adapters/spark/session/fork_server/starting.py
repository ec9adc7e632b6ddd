"""Starts the fork server of this process, and has the session that is made next use it.

Only where Spark runs in this machine's processes alone, from the PySpark that is installed here, with this
Python: elsewhere executors would look for a launcher that they do not have. Spark is told of it in the two ways
in which it learns of a Python: the JVM by its environment, PySpark by its own.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from kcontrol.adapters.spark.internals import spark_home
from kcontrol.adapters.spark.session.fork_server.launcher import ADDRESS
from kcontrol.adapters.spark.session.fork_server.process import SWITCH, ServerProcess, early
from kcontrol.settings.places import cache_home

_log = logging.getLogger("kcontrol.node")

PYTHON = "PYSPARK_PYTHON"
_LAUNCHER = Path(__file__).with_name("launcher.py")


class Forks:
    """The fork server of this process, which ends with it."""

    def __init__(self) -> None:
        self._server: ServerProcess | None = None

    @contextmanager
    def forking(self, master: str | None) -> Iterator[None]:
        """While the block runs, a JVM and a session that are made for this master use the server, if it can be
        used at all."""
        python = self.begin(master)
        if not python or self._server is None:
            yield
            return
        before = {name: os.environ.get(name) for name in (PYTHON, ADDRESS)}
        os.environ[PYTHON], os.environ[ADDRESS] = python, self._server.address
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def begin(self, master: str | None) -> str:
        """Start it now, for a session of this master that is made later: what Spark is to start as its Python;
        '' if it can't be used."""
        if not (_is_local(master) and _fits()):
            early.close()
            return ""
        try:
            launcher = _launcher()
            if self._server is None or not self._server.runs:
                self._server = early.taken() or ServerProcess()
        except OSError as error:
            _log.info("Spark's Python processes are started one by one: %s", error)
            return ""
        return launcher

    def close(self) -> None:
        """End it, and all that it has forked."""
        early.close()
        if self._server is not None:
            self._server.close()
            self._server = None


forks = Forks()
"""One for each process, as there is one JVM."""


def _is_local(master: str | None) -> bool:
    return master is not None and (master == "local" or master.startswith("local["))


def _fits() -> bool:
    return (
        os.environ.get(SWITCH) != "0"
        and hasattr(os, "fork")
        and os.environ.get(PYTHON) in (None, sys.executable)
        and "PYSPARK_GATEWAY_PORT" not in os.environ
        and spark_home().resolve() == Path(pyspark.__file__).resolve().parent
    )


def _launcher() -> str:
    """A program that Spark can start: it starts Python for nothing but the launcher. Made once, at a place that
    nobody clears away while a node runs."""
    text = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(_LAUNCHER))} "$@"\n'
    path = cache_home() / f"python-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not (path.is_file() and os.access(path, os.X_OK)):
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        made.write_text(text, encoding="utf-8")
        made.chmod(0o755)
        made.replace(path)
    return str(path)
