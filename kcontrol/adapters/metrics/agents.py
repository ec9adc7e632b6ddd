"""Metrics of the cluster of agents, worked out from its log when Prometheus asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics import catalogue
from kcontrol.adapters.metrics.making import AskedGauges, Gauges
from kcontrol.adapters.metrics.metric import Metric
from kcontrol.core.cluster.model import JobState
from kcontrol.views.agents_facts import ClusterSeen, agents_of, jobs_of

_GAUGES = (
    *(catalogue.CLUSTER_MEMBERS, catalogue.CLUSTER_SLOTS, catalogue.CLUSTER_SLOTS_USED),
    *(catalogue.CLUSTER_JOBS, catalogue.CLUSTER_JOB_WAITS, catalogue.CLUSTER_OFFSET),
    *(catalogue.CLUSTER_SNAPSHOT, catalogue.CLUSTER_BEHIND, catalogue.CLUSTER_DIFFERS),
)


def register_cluster(registry: CollectorRegistry, seen: Callable[[], ClusterSeen]) -> None:
    """seen: the cluster as the process knows it; without agents there is nothing to tell."""
    AskedGauges(registry, _GAUGES, lambda gauges: _add(gauges, seen()))


def _add(gauges: Gauges, seen: ClusterSeen) -> None:
    value = seen.replica
    if not value.agents and not value.jobs:
        return

    def put(metric: Metric, number: float, *labels: str) -> None:
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
        put(catalogue.CLUSTER_DIFFERS, len(agent.differs_from), agent.agent)
