"""The log of a small cluster: an entry more, and the simulator's invariants on what that makes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kcontrol.core.cluster.entries import ClusterEntry, KillJob, ResizeJob, SetStandbys, SubmitJob
from kcontrol.core.cluster.model import Replica
from kcontrol.core.cluster.replica import apply
from tests.simulation.cluster.exhaustive.keys import Keys
from tests.simulation.cluster.exhaustive.state import Logged, State
from tests.simulation.cluster.invariants import Applied, check_entry
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.invariants import require

LOOKED_UP_BEFORE = "what was looked up in a value before changes nothing"


class Log:
    """Appends, each made and checked once for each value and entry."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._made: dict[object, tuple[Replica, str]] = {}
        self.checked = 0
        """Entries on values."""

    def append(self, state: State, entry: ClusterEntry, gap: int = 0) -> tuple[State, str]:
        """With the entry at the next offset but `gap`, as offsets of Kafka have gaps; and why it was rejected."""
        offset = state.truth.offset + 1 + gap
        about = (self._keys.shape(state.truth), offset, entry, state.carried)
        found = self._made.get(about)
        if found is None:
            found = self._make(state, entry, offset)
            self._made[about] = found
        truth, why = found
        carried = state.carried
        if not why and isinstance(entry, SubmitJob | KillJob | ResizeJob | SetStandbys):
            carried = tuple(sorted({*carried, (entry.job, entry.request)}))
        unread = read_by_all(replace(state, unread=(*state.unread, Logged(offset, entry))))
        return replace(unread, truth=truth, carried=carried), why

    def _make(self, state: State, entry: ClusterEntry, offset: int) -> tuple[Replica, str]:
        """Raises Violation."""
        self.checked += 1
        truth, why = apply(state.truth, offset, entry)
        anew = apply(replace(state.truth, settled=None), offset, entry)
        require(anew == (truth, why), LOOKED_UP_BEFORE, entry)
        world = ClusterWorld()
        world.carried_out = Counter(state.carried)
        check_entry(world, Applied(state.truth, truth, entry, offset, why, late=True))
        return truth, why


def read_by_all(state: State) -> State:
    """Without what every agent has read that reads on."""
    reading = [host.agent.replica.offset for host in state.hosts if host.agent and host.agent.has_read]
    slowest = min(reading, default=None)
    left = () if slowest is None else tuple(one for one in state.unread if one.offset > slowest)
    return replace(state, unread=left)
