"""What an entry of the catalogue is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """Of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Where(StrEnum):
    """Which process tells it."""

    SERVER = "server"
    """`kcontrol serve`, and a coordinator with --http-port: worked out from the topics, the same in each."""
    COORDINATOR = "coordinator"
    """A coordinator with --http-port, of the pipelines that it looks after."""
    NODE = "node"
    """A node with --metrics-port."""
    DELIVERY = "delivery"
    """`kcontrol deliver` with --metrics-port."""
    PUSHES = "pushes"
    """`kcontrol serve` with --max-push-bytes, of the rows that it has taken itself."""
    STREAMS = "streams"
    """`kcontrol serve` with --max-streams, of the outputs that it streams itself."""


@dataclass(frozen=True, slots=True)
class Metric:
    """name: without the suffixes that a histogram's series have. labels: in order."""

    name: str
    kind: MetricKind
    where: Where
    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()


def counter(where: Where, name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, where, labels, text)


def gauge(where: Where, name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, where, labels, text)
