"""What a finished batch says of its watermark, late rows and skipped records, asked of
Spark before it records the batch.

Spark moves its watermark when it records the batch, which it may only do after the step is committed; but the
step's record must say whether it moved. `WatermarkTracker.updateWatermark` takes the maximum seen by the
batch's tasks and may be called twice, so calling it here changes nothing later.

Where nodes share one watermark, each says what event times it has seen, and is told the watermark before Spark records
the batch. It is never behind Spark's own, which only knows the rows of this node. There Spark must not be asked whether it
owes a batch: it keeps, by batch, the watermark that it was asked with, and fails when it is given another.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.core.model import FailureKind, Skipped
from kcontrol.errors import StepFailedError

_WATERMARK = "EventTimeWatermark"
"""Spark's name for the physical operator that looks at event times."""
SKIPPED_METRIC = "kcontrol_skipped_"
_LATE_METRIC = "numRowsDroppedByWatermark"
"""Spark's metric of every physical operator with state that drops late rows."""


def watermark_moved(execution: Any, bound: BoundQuery) -> bool:
    """Whether the batch that `execution` (a MicroBatchExecution) has just run makes a
    stateful query owe another, empty one.

    So it is when the event-time watermark moved and Spark, were it allowed batches
    without data, would run one for it.
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
    """How many records of each input could not be parsed and were left out, as the batch's tasks counted
    them."""
    if not bound.skipping:
        return ()
    metrics = execution.lastExecution().observedMetrics()
    found = []
    for name in bound.skipping:
        metric = metrics.get(SKIPPED_METRIC + name)
        found.append(Skipped(name, int(metric.get().getLong(0)) if metric.isDefined() else 0))
    return tuple(found)


def max_times_ms(execution: Any) -> tuple[int, ...]:
    """The greatest event time that each watermark operator of the batch which `execution` (a MicroBatchExecution) has just
    run has seen, in the order of the plan; 0: none."""
    return tuple(
        max(0, int(stats.max())) if stats.count() else 0
        for node in _nodes(execution.lastExecution().executedPlan())
        if node.nodeName() == _WATERMARK
        for stats in (node.eventTimeStats().value(),)
    )


def set_watermark(execution: Any, watermark_ms: int) -> None:
    """Spark records it with the batch that `execution` (a MicroBatchExecution) has just run, and goes by it in the next,
    also when it is started again.

    It never goes back: of a query that one node ran so far Spark alone knows how far it was, and all nodes that share it from
    then on have that from the same record.
    """
    tracker = execution.watermarkTracker()
    tracker.setWatermark(max(watermark_ms, tracker.currentWatermark()))


class LateRowsCounter:
    """Counts the rows that a query's watermark has dropped, batch by batch.

    Every batch is a plan of its own with metrics of its own, but Spark plans the same operators with state
    each time. Where they are in the plan is looked up once, since each question to the JVM takes a part of a
    millisecond.
    """

    def __init__(self, bound: BoundQuery) -> None:
        self._name, self._counts = bound.name, bound.stateful and bound.has_watermark
        self._places: tuple[int, ...] = ()
        """Numbers of the plan's nodes, as Spark counts them."""

    def rows(self, execution: Any) -> int | None:
        """Of the batch that `execution` (a MicroBatchExecution) has just run; None if the
        query has no watermark or state.

        Raises StepFailedError (LOST) when the plan has no operator to ask.
        """
        if not self._counts:
            return None
        plan = execution.lastExecution().executedPlan()
        found = [self._dropped(plan.p(number)) for number in self._places]
        if not found or None in found:
            self._places = tuple(_counting(plan))
            found = [self._dropped(plan.p(number)) for number in self._places]
        if not found:
            raise StepFailedError(
                FailureKind.LOST,
                f"query {self._name!r}: no operator of Spark's plan says how many late rows it dropped",
            )
        return sum(rows for rows in found if rows is not None)

    @staticmethod
    def _dropped(node: Any) -> int | None:
        metric = None if node is None else node.metrics().get(_LATE_METRIC)
        return int(metric.get().value()) if metric is not None and metric.isDefined() else None


def _counting(plan: Any) -> Iterator[int]:
    for number, node in enumerate(_nodes(plan)):
        if node.metrics().contains(_LATE_METRIC):
            yield number


def _nodes(plan: Any) -> Iterator[Any]:
    """All nodes of a physical plan, as Spark numbers them."""
    for number in count():
        node = plan.p(number)
        if node is None:
            return
        yield node
