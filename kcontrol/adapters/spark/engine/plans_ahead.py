"""Plans of queries that nobody runs yet, for whoever starts them."""

from __future__ import annotations

from kcontrol.adapters.spark.engine.once import StepPlans
from kcontrol.adapters.spark.query.bound import BoundQuery


class PlansAhead:
    """Each is taken once. They hold nothing of Spark's but what Java forgets with them, so what nobody takes need not be
    closed."""

    def __init__(self) -> None:
        self._plans: dict[str, tuple[BoundQuery, StepPlans]] = {}

    @property
    def names(self) -> frozenset[str]:
        """Of the queries that have some."""
        return frozenset(self._plans)

    def put(self, bound: BoundQuery, plans: StepPlans) -> None:
        self._plans[bound.name] = (bound, plans)

    def take(self, bound: BoundQuery) -> StepPlans | None:
        """Those of this very query; None: there are none, or of another that has its name."""
        made, plans = self._plans.pop(bound.name, (None, None))
        return plans if made is bound else None
