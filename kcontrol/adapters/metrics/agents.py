"""Metrics of the cluster of agents, worked out from its log when Prometheus asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kcontrol.adapters.metrics import catalogue
from kcontrol.adapters.metrics.making import gauge_family
from kcontrol.core.cluster.model import JobState
from kcontrol.errors import KcontrolError
from kcontrol.views.agents_facts import ClusterSeen, agents_of, jobs_of

_GAUGES = (
    *(catalogue.CLUSTER_MEMBERS, catalogue.CLUSTER_SLOTS, catalogue.CLUSTER_SLOTS_USED),
    *(catalogue.CLUSTER_JOBS, catalogue.CLUSTER_JOB_WAITS, catalogue.CLUSTER_OFFSET),
    *(catalogue.CLUSTER_SNAPSHOT, catalogue.CLUSTER_BEHIND),
)


class ClusterMetrics(Collector):
    """seen: the cluster as the process knows it; without agents there is nothing to tell."""

    def __init__(self, registry: CollectorRegistry, seen: Callable[[], ClusterSeen]) -> None:
        self._seen = seen
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Names only; nothing is looked up."""
        return [gauge_family(metric) for metric in _GAUGES]

    def collect(self) -> Iterator[Metric]:
        """As of the newest entry that is known."""
        gauges = {metric.name: gauge_family(metric) for metric in _GAUGES}
        with suppress(KcontrolError):
            _add(gauges, self._seen())
        yield from gauges.values()


def _add(gauges: Mapping[str, GaugeMetricFamily], seen: ClusterSeen) -> None:
    value = seen.replica
    if not value.agents and not value.jobs:
        return

    def put(metric: catalogue.Metric, number: float, *labels: str) -> None:
        gauges[metric.name].add_metric(labels, number)

    put(catalogue.CLUSTER_MEMBERS, len(value.members))
    put(catalogue.CLUSTER_SLOTS, sum(agent.slots for agent in value.usable().values()))
    put(catalogue.CLUSTER_SLOTS_USED, len(value.places()))
    put(catalogue.CLUSTER_OFFSET, value.offset)
    put(catalogue.CLUSTER_SNAPSHOT, value.base.offset)
    states = Counter(job.state for job in value.jobs.values())
    for state in JobState:
        put(catalogue.CLUSTER_JOBS, states[state], state.value)
    for job in jobs_of(value):
        if job.state == JobState.ACTIVE:
            put(catalogue.CLUSTER_JOB_WAITS, 1 if job.waits else 0, job.job)
    for agent in agents_of(seen):
        if agent.behind is not None:
            put(catalogue.CLUSTER_BEHIND, agent.behind, agent.agent)
