"""What Spark's JVM says on standard error: errors, and nothing of the machine or itself, unless users want
it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark import SparkConf
from pyspark import java_gateway as untyped_gateway

from kcontrol.adapters.spark.internals import own_gateway, spark_home, use_gateway
from kcontrol.adapters.spark.session.collector import VARIABLES, spark_conf_dir, spark_defaults

CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_PROPERTY = "log4j2.configurationFile"
_CONFIGURED = ("log4j2.configurationFile", "log4j.configurationFile", "log4j.configuration")
_INCUBATOR = "WARNING: Using incubator modules:"
"""Java says it of a module that Spark asks for; there is no option against it."""
_TRACEBACK = "Traceback (most recent call last):"
_MAX_HELD_LINES = 200
_SHORT_LIFE = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
_LAUNCHER_JAR = "jars/spark-launcher_*.jar"
"""Its classes are looked for in all jars in the order of their names, each of which is opened for that."""
_pyspark: Any = untyped_gateway
"""PySpark has what starts a JVM without types."""
_READ_BYTES = 65_536
_LAST_WORDS_S = 2.0


def logging_option(settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> str:
    """The option for the JVM that is about to start by which it logs errors only; '' when
    its user has configured logging.

    settings: of Spark, by name. environment: of this process, unless given; Spark's
    configuration is found by it as Spark does.
    """
    variables = os.environ if environment is None else environment
    said = (*settings.values(), *(variables.get(name, "") for name in VARIABLES), spark_defaults(variables))
    if any(name in text for text in said for name in _CONFIGURED) or any(
        spark_conf_dir(variables).glob("log4j2*")
    ):
        return ""
    return f'"-D{_PROPERTY}={CONFIGURATION}"'


class Words:
    """Hands on the lines of a JVM, and of the Python that it starts, but for what tells nobody anything.

    That is Java's word on a module of Spark's, and the traceback of each worker of PySpark whose last bytes
    nobody took because its task had been cancelled: also where several tell it at the same moment, line by line
    in turn, and where the session's end kills them at it.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._held: list[str] = []
        self._telling = 0
        """Tracebacks among those held whose last line has not come."""

    def line(self, text: str) -> None:
        """One more, without its end."""
        if text == _TRACEBACK:
            self._telling += 1
        elif not self._telling:
            if not text.startswith(_INCUBATOR):
                self._say(text)
            return
        elif not text.startswith(" "):
            self._telling -= 1
        self._held.append(text)
        if not self._telling or len(self._held) > _MAX_HELD_LINES or not _is_of_untaken_bytes(text):
            self._judge()

    def end(self) -> None:
        """There is no line after the last one."""
        self._judge()

    def _judge(self) -> None:
        """Say what is held, unless it is of workers whose last bytes nobody took, and of nothing else."""
        held, self._held, self._telling = self._held, [], 0
        if not all(_is_of_untaken_bytes(text) for text in held):
            for text in held:
                self._say(text)


def _is_of_untaken_bytes(line: str) -> bool:
    """Whether it can be in the traceback of a worker of PySpark whose last bytes nobody took."""
    if line.startswith("  File "):
        return "pyspark/daemon.py" in line
    return line == _TRACEBACK or line.startswith((" ", "BrokenPipeError"))


def launch_hushed(values: Mapping[str, str]) -> None:
    """Start the JVM for the session that is made next, and hand on what it says on
    standard error, as `Words` says.

    Does nothing where there is one already. Raises what `launch_gateway` raises.
    """
    if own_gateway() is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    reading, writing = os.pipe()
    relay = Thread(target=_hand_on, args=(reading,), name="kcontrol-jvm-words", daemon=True)
    relay.start()
    # PySpark imports it as soon as the JVM has started, and waits for that without doing anything.
    Thread(target=import_module, args=("pandas",), name="kcontrol-import", daemon=True).start()
    options: dict[str, Any] = {"stderr": writing}
    try:
        with _quick_launcher():
            gateway = _pyspark.launch_gateway(SparkConf().setAll(list(values.items())), options)
    except BaseException:
        os.close(writing)
        relay.join(_LAST_WORDS_S)
        raise
    os.close(writing)
    use_gateway(gateway)


@contextmanager
def _quick_launcher() -> Iterator[None]:
    """While the block runs, Spark's scripts need not look for their own place, and the Java that puts the JVM's command
    together, and ends, makes nothing ready for a longer life; unless the user has said otherwise."""
    home = spark_home()
    jars = [f"-Xbootclasspath/a:{jar}" for jar in home.glob(_LAUNCHER_JAR) if " " not in str(jar)]
    mine = {"SPARK_HOME": str(home), "SPARK_LAUNCHER_OPTS": " ".join([_SHORT_LIFE, *jars])}
    added = [name for name in mine if name not in os.environ]
    os.environ.update({name: mine[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _hand_on(reading: int) -> None:
    """Until everybody has closed the other end. Whatever happens to our own standard
    error, Java must not wait for us."""
    words, rest = Words(_say), b""
    while chunk := os.read(reading, _READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            words.line(line.decode(errors="replace"))
    if rest:
        words.line(rest.decode(errors="replace"))
    words.end()
    os.close(reading)


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
