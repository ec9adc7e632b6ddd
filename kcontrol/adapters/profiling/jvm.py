"""Spark's JVM beside the Python driver: by the JDK's own flight recorder and heap
histogram, asked for through py4j."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError

from kcontrol.errors import RetriableError
from kcontrol.settings.scratch import scratch_directory

RECORDING = "kcontrol"
MAX_RECORDING = "50m"
"""Of a recording on the disk: the flight recorder drops what is older."""

_BEAN = "com.sun.management:type=DiagnosticCommand"
_ARGUMENTS = "[Ljava.lang.String;"


class Jvm:
    """One JVM. gateway: py4j's, as PySpark holds it. Blocking; not for use in a coroutine."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    def cpu_profile(self, seconds: float) -> bytes:
        """A recording of the flight recorder of so many seconds, by its settings `profile`: samples of calls,
        allocations, waits, collections. `jfr` and JDK Mission Control read it.

        Raises RetriableError when the JVM does not answer or refuses.
        """
        with scratch_directory("profile") as scratch:
            file = scratch / "recording.jfr"
            self._ask("jfrStart", f"name={RECORDING}", "settings=profile", f"maxsize={MAX_RECORDING}")
            try:
                time.sleep(seconds)
                self._ask("jfrDump", f"name={RECORDING}", f"filename={file}")
            finally:
                with suppress(RetriableError):
                    self._ask("jfrStop", f"name={RECORDING}")
            if not file.is_file():
                raise RetriableError(
                    "the JVM has written no recording: it can't write to this machine's temporary directory"
                )
            return file.read_bytes()

    def heap_profile(self) -> str:
        """The live objects of the heap by class, the largest first; the JVM collects garbage before it
        counts.

        Raises RetriableError when the JVM does not answer or refuses.
        """
        return self._ask("gcClassHistogram")

    def _ask(self, operation: str, *arguments: str) -> str:
        """Of the JDK's diagnostic commands. Asked through the interface of the bean server, because the class
        behind it is not for others to see."""
        try:
            java = self._gateway.jvm.java
            server = java.lang.management.ManagementFactory.getPlatformMBeanServer()
            interface = java.lang.Class.forName("javax.management.MBeanServer")
            (invoke,) = (method for method in interface.getMethods() if method.getName() == "invoke")
            words = self._array(java.lang.String, *arguments)
            name = self._gateway.jvm.javax.management.ObjectName(_BEAN)
            signature = self._array(java.lang.String, _ARGUMENTS)
            asked = self._array(
                java.lang.Object, name, operation, self._array(java.lang.Object, words), signature
            )
            return str(invoke.invoke(server, asked))
        except (Py4JError, OSError) as error:
            raise RetriableError(f"Spark's JVM has not done {operation}: {_reason(error)}") from error

    def _array(self, kind: Any, *values: Any) -> Any:
        made = self._gateway.new_array(kind, len(values))
        for index, each in enumerate(values):
            made[index] = each
        return made


def _reason(error: BaseException) -> str:
    """The innermost cause that Java names, else the first line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else lines[0]
