"""The start of a node's Spark, which can be begun before it is known that it will be needed.

A JVM and a session take seconds, in which a process that comes back can read the logs: it has no right, no directory and no
name in Kafka by them, so one that turns out to be nobody has lost nothing but the time of a processor. See
docs/decisions/135-spark-begun-first.md.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.session.beside import beside_session
from kcontrol.adapters.spark.session.build import begin_forking, session
from kcontrol.apps.supervisor.anew import end_spark

END_TIMEOUT_S = 60.0
"""So long a start that is not wanted any more may take to come to its end."""

_log = logging.getLogger("kcontrol.node")


class SparkStart:
    """Of one process, which has one Spark at most. master: Spark's; None: see `kcontrol.session`."""

    def __init__(self, app_name: str, master: str | None) -> None:
        self._app_name, self._master = app_name, master
        self._made: Future[SparkSession] | None = None

    def begin(self) -> None:
        """Now, if it has not begun yet. The thread does not outlive the process, nor does the JVM."""
        if self._made is None:
            self._made = Future()
            threading.Thread(target=self._run, args=(self._made,), name="kcontrol-spark", daemon=True).start()

    def prepare(self) -> None:
        """What Spark's Python processes are forked from begins, if Spark has not."""
        if self._made is None:
            begin_forking(self._master)

    async def session(self) -> SparkSession:
        """Once it is there. Raises what `kcontrol.session` raises."""
        self.begin()
        assert self._made is not None
        return await asyncio.wrap_future(self._made)

    def end(self) -> None:
        """Nobody needs it: end it, and what the pipeline's file may have started before."""
        if self._made is not None:
            with suppress(Exception):  # It has not come about, which is as good.
                self._made.result(END_TIMEOUT_S)
        end_spark()

    def _run(self, made: Future[SparkSession]) -> None:
        try:
            made.set_result(session(self._app_name, self._master, hushed=True, launched=beside_session))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the session is awaited
            made.set_exception(error)
