"""What a node does about a JVM that has died under its hands."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from unittest.mock import MagicMock

from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.adapters.spark.engine.queries import CANCEL_THREAD, RunningQueries
from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from kcontrol.apps.ending import end_task
from kcontrol.core.events import Exit
from tests.support.patience import HANG_S


def test_there_is_nothing_to_cancel_in_a_jvm_that_is_gone(tmp_path: Path) -> None:
    """An error would take the place of the cancellation that asked for it, and the node would never end."""
    spark = MagicMock()
    spark.sparkContext.cancelJobGroup.side_effect = ConnectionRefusedError
    frame = MagicMock()
    writer = frame.writeStream.queryName.return_value.outputMode.return_value.option.return_value.foreachBatch.return_value
    execution = writer.start.return_value._jsq.streamingQuery.return_value
    clock = MagicMock()
    clock.getName.return_value = "triggerClock"
    execution.getClass.return_value.getDeclaredFields.return_value = [clock]
    query = BoundQuery("q", frame, "append", ("out",), ("in",), True, True, (), False, ())
    queries = BoundQueries("p", (query,))
    workdir = MagicMock()
    workdir.query_path.return_value = tmp_path
    running = RunningQueries(spark, queries, MagicMock(shards={}), workdir, 2, lambda *_: None, StepGate())
    running.start(1, 0)
    running.cancel_jobs()
    for thread in threading.enumerate():
        if thread.name == CANCEL_THREAD:
            thread.join(HANG_S)
    spark.sparkContext.cancelJobGroup.assert_called_once()


def test_a_session_that_loses_a_cancellation_is_cancelled_again() -> None:
    async def stubborn() -> Exit:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue
        return Exit("at last", False)

    async def scenario() -> None:
        working = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        await asyncio.wait_for(end_task(working), HANG_S)
        assert working.result() == Exit("at last", False)

    asyncio.run(scenario())
