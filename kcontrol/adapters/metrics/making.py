"""From an entry of the catalogue to the metric in a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kcontrol.adapters.metrics.metric import Metric
from kcontrol.errors import KcontrolError


def make_registry() -> CollectorRegistry:
    """For one process, with Prometheus' own figures of it (`process_*`)."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def make_counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """Counts in this process."""
    return Counter(metric.name, metric.text, metric.labels, registry=registry)


def make_gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    """Set by this process."""
    return Gauge(metric.name, metric.text, metric.labels, registry=registry)


def make_histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    """Observed by this process."""
    return Histogram(metric.name, metric.text, metric.labels, buckets=metric.buckets, registry=registry)


def gauge_family(metric: Metric) -> GaugeMetricFamily:
    """Worked out anew whenever somebody asks."""
    return GaugeMetricFamily(metric.name, metric.text, labels=metric.labels)


def counter_family(metric: Metric) -> CounterMetricFamily:
    """The same for a counter that somebody else keeps."""
    return CounterMetricFamily(metric.name, metric.text, labels=metric.labels)


Gauges = Mapping[str, GaugeMetricFamily]
"""By name."""


class AskedGauges(Collector):
    """Gauges that are worked out when Prometheus asks. add: puts what is known into them; what it raises of kcontrol's own
    leaves them without figures."""

    def __init__(
        self, registry: CollectorRegistry, metrics: Sequence[Metric], add: Callable[[Gauges], None]
    ) -> None:
        self._metrics, self._add = metrics, add
        registry.register(self)

    def describe(self) -> Iterable[Family]:
        """Names only; nothing is looked up."""
        return [gauge_family(metric) for metric in self._metrics]

    def collect(self) -> Iterator[Family]:
        """As of now."""
        gauges = {metric.name: gauge_family(metric) for metric in self._metrics}
        with suppress(KcontrolError):
            self._add(gauges)
        yield from gauges.values()
