"""Whether Spark's JVM lives and answers: one that was stopped, or hangs, is as good as dead, and is ended."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.failures import SPARK_ERRORS
from kcontrol.adapters.spark.internals import gateway_of

ASK_EVERY_S = 1.0


def jvm_pid(spark: SparkSession) -> int | None:
    """The process id of the JVM that PySpark has started for this session; None when
    Spark has started this process."""
    process = _started_jvm(gateway_of(spark))
    return None if process is None else process.pid


def _started_jvm(gateway: Any) -> subprocess.Popen[bytes] | None:
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


class JvmLife:
    """Asks the JVM for the time, again and again, in a thread of its own, until `close`.

    process: what PySpark has started for this session; None when Spark has started this process.
    """

    def __init__(self, spark: SparkSession, silence_s: float) -> None:
        """silence_s: for so long it may leave a question unanswered."""
        self._gateway = gateway_of(spark)
        self.process = _started_jvm(self._gateway)
        self._silence_s = silence_s
        self._asked_s: float | None = None
        self._over = threading.Event()
        threading.Thread(target=self._ask, name="kcontrol-jvm-life", daemon=True).start()

    def wrong(self) -> str:
        """Why it is of no use any more, for people; '' while it is."""
        if self.process is not None and self.process.poll() is not None:
            return (
                f"Spark's JVM (process {self.process.pid}) has ended with exit code {self.process.returncode}"
            )
        asked_s = self._asked_s
        if asked_s is not None and (silent_s := time.monotonic() - asked_s) > self._silence_s:
            name = "" if self.process is None else f" (process {self.process.pid})"
            return f"Spark's JVM{name} has not answered for {silent_s:.0f} s"
        return ""

    def kill(self) -> None:
        """End the JVM, if this process has started it, so that nobody here waits for its answers."""
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        """Ask no more."""
        self._over.set()

    def _ask(self) -> None:
        system = None
        while not self._over.wait(ASK_EVERY_S):
            self._asked_s = time.monotonic()
            try:
                system = system or self._gateway.jvm.java.lang.System
                system.nanoTime()
            except SPARK_ERRORS:
                return
            self._asked_s = None
