"""Metrics of regions, worked out from their logs when Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics import catalogue
from kcontrol.adapters.metrics.making import AskedGauges, Gauges
from kcontrol.adapters.metrics.metric import Metric
from kcontrol.core.regions.model import RegionState
from kcontrol.views.regions_facts import RegionSight, RegionsSeen, state_number

_GAUGES = (
    *(catalogue.REGION_STATE, catalogue.REGION_STATE_NUMBER, catalogue.REGION_LAST_COMPLETED),
    *(catalogue.REGION_DRAIN_AVERAGE, catalogue.REGION_RESET_AVERAGE),
    *(catalogue.REGION_LAST_CONSISTENT, catalogue.REGION_LAST_RESET),
    *(catalogue.REGION_DRAIN_ID, catalogue.REGION_RESET_ID, catalogue.REGION_ATTEMPTS),
    *(catalogue.REGION_PERIOD, catalogue.REGION_AWAITED, catalogue.REGION_HEARD),
)


def register_regions(registry: CollectorRegistry, seen: Callable[[], RegionsSeen]) -> None:
    """seen: regions as the process knows them; without one there is nothing to tell. What a region never did is not told."""

    def add(gauges: Gauges) -> None:
        for name, sight in seen().items():
            _add(gauges, name, sight)

    AskedGauges(registry, _GAUGES, add)


def _add(gauges: Gauges, region: str, sight: RegionSight) -> None:
    newest, history = sight.view.newest, sight.history

    def put(metric: Metric, number: float, *labels: str) -> None:
        gauges[metric.name].add_metric((region, *labels), number)

    put(catalogue.REGION_PERIOD, sight.period_ms / 1000)
    put(catalogue.REGION_AWAITED, sight.awaited_ms / 1000)
    put(catalogue.REGION_HEARD, (sight.heard_ms or 0) / 1000)
    if newest is None:
        return
    for state in RegionState:
        put(catalogue.REGION_STATE, state is newest.state, state.value)
    put(catalogue.REGION_STATE_NUMBER, state_number(newest.state))
    put(catalogue.REGION_LAST_COMPLETED, newest.last_completed_seq_id)
    put(catalogue.REGION_ATTEMPTS, newest.reset_attempt)
    put(catalogue.REGION_DRAIN_ID, history.last_drain_seq_id)
    put(catalogue.REGION_RESET_ID, history.last_reset_seq_id)
    if history.drain_ms:
        put(catalogue.REGION_DRAIN_AVERAGE, _average_s(history.drain_ms))
    if history.last_consistent_ms:
        put(catalogue.REGION_LAST_CONSISTENT, history.last_consistent_ms / 1000)
    if history.reset_ms:
        put(catalogue.REGION_RESET_AVERAGE, _average_s(history.reset_ms))
    if history.last_reset_ms:
        put(catalogue.REGION_LAST_RESET, history.last_reset_ms / 1000)


def _average_s(lengths_ms: Sequence[int]) -> float:
    return sum(lengths_ms) / len(lengths_ms) / 1000
