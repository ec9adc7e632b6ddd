"""Metrics that only a deliverer knows: how far its target is, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from kcontrol.adapters.metrics import catalogue
from kcontrol.adapters.metrics.making import gauge_family, make_counter


@dataclass(frozen=True, slots=True)
class DeliveryLevels:
    """How a delivery is, at the moment it is asked."""

    state: str
    step: int
    lag_steps: int
    lag_s: float


class DeliveryMetrics(Collector):
    """A DeliveryObserver, of one delivery."""

    def __init__(
        self,
        registry: CollectorRegistry,
        labels: tuple[str, str, str],
        guarantee: str,
        states: Sequence[str],
        levels: Callable[[], DeliveryLevels],
    ) -> None:
        """labels: pipeline, output and target."""
        self._labels, self._guarantee, self._states, self._levels = labels, guarantee, states, levels
        self._steps, self._rows, self._bad_rows, self._errors = (
            make_counter(metric, registry).labels(*labels)
            for metric in (
                *(catalogue.DELIVERED_STEPS, catalogue.DELIVERED_ROWS),
                *(catalogue.DELIVERY_BAD_ROWS, catalogue.DELIVERY_ERRORS),
            )
        )
        registry.register(self)

    def applied(self, rows: int, bad_rows: int) -> None:
        self._steps.inc()
        self._rows.inc(rows)
        self._bad_rows.inc(bad_rows)

    def failed(self) -> None:
        self._errors.inc()

    def collect(self) -> Iterable[object]:  # type: ignore[override]
        """As Prometheus asks."""
        levels = self._levels()
        state = gauge_family(catalogue.DELIVERY_STATE)
        for each in self._states:
            state.add_metric([*self._labels, self._guarantee, each], float(each == levels.state))
        yield state
        for metric, value in (
            (catalogue.DELIVERED_STEP, levels.step),
            (catalogue.DELIVERY_LAG_STEPS, levels.lag_steps),
            (catalogue.DELIVERY_LAG_SECONDS, levels.lag_s),
        ):
            family = gauge_family(metric)
            family.add_metric(list(self._labels), value)
            yield family
