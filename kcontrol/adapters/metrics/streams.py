"""Metrics that only a server that streams outputs knows: how many, and what was sent."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics import served
from kcontrol.adapters.metrics.making import AskedGauges, Gauges, make_counter


class StreamMetrics:
    """A StreamObserver."""

    def __init__(self, registry: CollectorRegistry, running: Callable[[], int], limit: int) -> None:
        """running: how many streams there are now; limit: how many there may be."""
        self._steps = make_counter(served.STREAMED_STEPS, registry)
        self._rows = make_counter(served.STREAMED_ROWS, registry)
        self._refused = make_counter(served.STREAMS_REFUSED, registry)
        self._failed = make_counter(served.STREAMS_FAILED, registry)

        def add(gauges: Gauges) -> None:
            gauges[served.STREAMS.name].add_metric((), running())
            gauges[served.STREAMS_LIMIT.name].add_metric((), limit)

        AskedGauges(registry, (served.STREAMS, served.STREAMS_LIMIT), add)

    def rows(self, pipeline: str, output: str, count: int) -> None:
        self._rows.labels(pipeline, output).inc(count)

    def step(self, pipeline: str, output: str) -> None:
        self._steps.labels(pipeline, output).inc()

    def refused(self, pipeline: str, output: str) -> None:
        self._refused.labels(pipeline, output).inc()

    def failed(self, pipeline: str, output: str) -> None:
        self._failed.labels(pipeline, output).inc()
