"""What the first steps of a node will need of its JVM, made ready beside what is under way.

While a session is made, and while queries are bound, one thread computes and a second processor has little to do. What costs
a second the first time and nothing afterwards is done there meanwhile. Nothing waits for it, and nothing is lost if it fails.
See docs/decisions/195-first-uses-beside.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import (
    first_compiler,
    first_library,
    first_parser,
    first_reflection,
    read_snapshot_list,
)

_log = logging.getLogger(__name__)


def beside_session(gateway: Any) -> threading.Thread:
    """Begin what all sessions need, in the JVM that has started and will have one."""
    return _begun([partial(each, gateway) for each in (first_reflection, first_parser, first_compiler)])


def beside_binding(spark: SparkSession) -> threading.Thread:
    """Begin what queries with state need."""
    return _begun([partial(first_library, spark), partial(read_snapshot_list, spark)])


def _begun(uses: list[Callable[[], object]]) -> threading.Thread:
    thread = threading.Thread(target=_run, args=(uses,), name="kcontrol-beside", daemon=True)
    thread.start()
    return thread


def _run(uses: list[Callable[[], object]]) -> None:
    for use in uses:
        try:
            use()
        except Exception as error:  # noqa: BLE001 - the JVM may have ended meanwhile, or be of another Spark
            _log.debug("not made ready: %s", error)
