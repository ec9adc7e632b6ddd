"""Java's optimising compiler, asked to compute when nobody else wants to.

A JVM compiles what it runs often while it runs it. On a node that has just started, and for minutes after, that takes up to a
fifth of two processors from steps that are slow because so little of them is compiled. What the quick compiler makes is
good enough meanwhile, so the threads of the optimising one get less weight: all that is idle, and a part of what is not, in
short turns. See docs/decisions/129-back-sooner.md and 201-short-turns.md. Linux alone gives threads a weight of their own.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, get_native_id
from typing import Any

from kcontrol.adapters.spark.session.collector import spark_defaults
from kcontrol.adapters.spark.session.conf import whole_number
from kcontrol.adapters.spark.session.turns import take_short_turns

NICENESS_SETTING = "spark.kcontrol.compilerNiceness"
"""By how much it gives way, as nice(1) counts; 0: not at all."""
NICENESS = 10
"""A tenth of what an ordinary thread weighs: enough for a program that computes all the time to be compiled within seconds."""
_MOST = 19
LOOK_EVERY_S = 0.02
"""For the threads of a JVM that starts, which takes a second or more."""
OPTION = "-XX:-UseDynamicNumberOfCompilerThreads"
"""All compiling threads are there once the JVM has started, so that all are found."""
_OPTIMISING = "C2 CompilerThre"
"""How Linux, which keeps 15 characters, has their name."""

_log = logging.getLogger(__name__)


def compiler_niceness(settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> int:
    """What Spark's settings, or else its spark-defaults.conf, say of NICENESS_SETTING. environment: as in
    `collector_option`. Raises SparkSettingError."""
    defaults = spark_defaults(os.environ if environment is None else environment)
    written = re.search(rf"^\s*{re.escape(NICENESS_SETTING)}\s*[\s=:]\s*(\S*)", defaults, re.MULTILINE)
    text = settings.get(NICENESS_SETTING, str(NICENESS) if written is None else written[1])
    return whole_number(NICENESS_SETTING, text, f"a number from 0 to {_MOST}", _MOST)


def compilers_option(niceness: int) -> str:
    """The option for a JVM that is about to start; '' where none is needed."""
    return OPTION if niceness and sys.platform == "linux" else ""


def let_compilers_give_way(gateway: Any, niceness: int) -> int:
    """Give the optimising compiler's threads less weight, in the JVM that PySpark has started, if it has: None has no process.
    How many they are; 0 where it can't be done, which costs time only."""
    process = None if gateway is None else getattr(gateway, "proc", None)
    if process is None or not niceness or sys.platform != "linux":
        return 0
    try:
        return _give_way(process.pid, niceness)
    except OSError as error:
        _log.info("the compilers of Spark's JVM (process %d) do not give way: %s", process.pid, error)
        return 0


@contextmanager
def giving_way_from_the_start(niceness: int) -> Iterator[None]:
    """While the block runs, the same for a JVM that this thread starts in it, as soon as it has such threads. What can't be
    done here can be when the JVM has started."""
    over = Event()
    if niceness and sys.platform == "linux":
        started_by = get_native_id()
        Thread(
            target=_look_out, args=(started_by, niceness, over), name="kcontrol-compilers", daemon=True
        ).start()
    try:
        yield
    finally:
        over.set()


def _look_out(started_by: int, niceness: int, over: Event) -> None:
    children = Path(f"/proc/self/task/{started_by}/children")
    while not over.wait(LOOK_EVERY_S):
        with suppress(OSError, ValueError):
            if any(_give_way(int(each), niceness) for each in children.read_text(encoding="ascii").split()):
                return


def _give_way(process: int, niceness: int) -> int:
    """How many threads optimise there. Raises OSError; not for a thread that ends while it is looked at."""
    found = [int(thread.name) for thread in Path(f"/proc/{process}/task").iterdir() if _optimises(thread)]
    for number in found:
        with suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, number) < niceness:
                os.setpriority(os.PRIO_PROCESS, number, niceness)
                take_short_turns(number, niceness)
    return len(found)


def _optimises(thread: Path) -> bool:
    try:
        name = (thread / "comm").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # It has ended since it was listed.
        return False
    return name.startswith(_OPTIMISING)
