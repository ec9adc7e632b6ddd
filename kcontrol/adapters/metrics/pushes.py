"""Metrics that only a server that takes rows knows: what was pushed, what was not, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics import served
from kcontrol.adapters.metrics.making import AskedGauges, Gauges, make_counter
from kcontrol.requests.push.observer import Refusal


class PushMetrics:
    """A PushObserver."""

    def __init__(self, registry: CollectorRegistry, remembered: Callable[[], int], limit: int) -> None:
        """remembered: how many requests are now; limit: how many may be."""
        self._requests = make_counter(served.PUSHES, registry)
        self._rows = make_counter(served.PUSHED_ROWS, registry)
        self._bytes = make_counter(served.PUSHED_BYTES, registry)
        self._replayed = make_counter(served.PUSHES_REPLAYED, registry)
        self._refused = make_counter(served.PUSHES_REFUSED, registry)
        self._failed = make_counter(served.PUSHES_FAILED, registry)

        def add(gauges: Gauges) -> None:
            gauges[served.PUSHES_REMEMBERED.name].add_metric((), remembered())
            gauges[served.PUSHES_REMEMBERED_LIMIT.name].add_metric((), limit)

        AskedGauges(registry, (served.PUSHES_REMEMBERED, served.PUSHES_REMEMBERED_LIMIT), add)

    def pushed(self, pipeline: str, input_name: str, rows: int, size: int) -> None:
        self._requests.labels(pipeline, input_name).inc()
        self._rows.labels(pipeline, input_name).inc(rows)
        self._bytes.labels(pipeline, input_name).inc(size)

    def replayed(self, pipeline: str, input_name: str) -> None:
        self._replayed.labels(pipeline, input_name).inc()

    def refused(self, pipeline: str, input_name: str, reason: Refusal) -> None:
        self._refused.labels(pipeline, input_name, reason.value).inc()

    def failed(self, pipeline: str, input_name: str) -> None:
        self._failed.labels(pipeline, input_name).inc()
