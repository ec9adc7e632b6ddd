"""From an entry of the catalogue to the metric in a registry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector

from kcontrol.adapters.metrics.catalogue import Metric


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
