"""What PySpark's worker daemon has done before it forks its workers."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.patience import HANG_S

LOOK = """
import gc, json, sys, threading
from kcontrol.adapters.spark.session.warm_daemon import warm_up

warm_up()
frozen, before = gc.get_freeze_count(), set(sys.modules)
import kcontrol.adapters.kafka.exchange.reader
import kcontrol.adapters.kafka.exchange.writer
import kcontrol.adapters.spark.channel.placement_check
import kcontrol.adapters.spark.channel.reporting
import kcontrol.adapters.spark.sink.sending
import kcontrol.adapters.spark.sink.tasks
import kcontrol.adapters.spark.source.data_source
import kcontrol.adapters.spark.source.exchange_reading
import kcontrol.adapters.spark.source.exchange_source
import kcontrol.adapters.spark.source.reading

print(json.dumps({
    "late": sorted(set(sys.modules) - before),
    "threads": [thread.name for thread in threading.enumerate()],
    "frozen": frozen,
    "tracked": len(gc.get_objects()),
}))
"""


def test_a_forked_worker_finds_all_that_a_task_imports_and_nothing_to_collect() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    seen = json.loads(done.stdout.splitlines()[-1])

    assert seen["late"] == []
    assert seen["threads"] == ["MainThread"], "a fork takes one thread along, and the locks of all"
    assert seen["tracked"] < seen["frozen"] / 20
