"""What a finished batch says of its watermark and its skipped records, asked of Spark before it records the batch.

Spark moves its watermark when it records the batch, which it may only do after the step is committed; but the step's record
must say whether it moved. `WatermarkTracker.updateWatermark` takes the maximum seen by the batch's tasks and may be called
twice, so calling it here changes nothing later.
"""

from __future__ import annotations

from typing import Any

from kcontrol.adapters.spark.bound import BoundQuery
from kcontrol.core.model import Skipped

SKIPPED_METRIC = "kcontrol_skipped_"


def watermark_moved(execution: Any, bound: BoundQuery) -> bool:
    """Whether the batch that `execution` (a MicroBatchExecution) has just run makes a stateful query owe another, empty one.

    So it is when the event-time watermark moved and Spark, were it allowed batches without data, would run one for it.
    """
    if not bound.stateful or not bound.has_watermark:
        return False
    tracker = execution.watermarkTracker()
    batch = execution.lastExecution()
    tracker.updateWatermark(batch.executedPlan())
    now_ms = tracker.currentWatermark()
    before = batch.offsetSeqMetadata()
    if now_ms <= before.batchWatermarkMs():
        return False
    after = before.copy(now_ms, before.batchTimestampMs(), before.conf())
    return bool(batch.shouldRunAnotherBatch(after))


def skipped_records(execution: Any, bound: BoundQuery) -> tuple[Skipped, ...]:
    """How many records of each input could not be parsed and were left out, as the batch's tasks counted them."""
    if not bound.skipping:
        return ()
    metrics = execution.lastExecution().observedMetrics()
    found = []
    for name in bound.skipping:
        metric = metrics.get(SKIPPED_METRIC + name)
        found.append(Skipped(name, int(metric.get().getLong(0)) if metric.isDefined() else 0))
    return tuple(found)
