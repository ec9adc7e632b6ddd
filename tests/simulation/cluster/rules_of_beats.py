"""The rule by which an agent beats whatever else it has to do, as it is switched off."""

from __future__ import annotations

from unittest.mock import patch

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.liveness import Beat
from tests.simulation.breaking import Patches
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.rule import ClusterRule


def _who_runs_a_coordinator_beats_seldom() -> Patches:
    """It gets its turns, and says nothing."""

    def beat(self: AgentMachine, now_ms: int) -> Beat | None:
        busy = any(place.agent == self.me.name for place in self.replica.coordinators)
        rests = self._beat_ms is not None and now_ms - self._beat_ms < 6 * self.replica.policy.beat_ms
        return None if busy and rests else right(self, now_ms)

    right = AgentMachine.beat
    return (patch.object(AgentMachine, "beat", beat),)


RULES_OF_BEATS = (ClusterRule(_who_runs_a_coordinator_beats_seldom, (inv.DEAD_WITHOUT_A_CAUSE,)),)
