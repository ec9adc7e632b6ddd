"""Metrics that only a node knows: where the time of its steps goes, and what it replays."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics import catalogue
from kcontrol.adapters.metrics.making import make_counter, make_histogram


class NodeMetrics:
    """A NodeObserver."""

    def __init__(self, registry: CollectorRegistry, pipeline: str, node: int) -> None:
        self._labels = (pipeline, str(node))
        self._phases = make_histogram(catalogue.NODE_PHASE_SECONDS, registry)
        self._replayed = make_counter(catalogue.NODE_REPLAYED, registry).labels(*self._labels)

    def took(self, phase: str, seconds: float) -> None:
        self._phases.labels(*self._labels, phase).observe(seconds)

    def replayed(self) -> None:
        self._replayed.inc()
