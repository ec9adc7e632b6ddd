"""What agents make of the log, each value once: agents of one version that read the same entry with the same value before them
have the same object after it.

The first of each version computes it, beside the oracle and its check that the function is one; others would compute the
same again. What is equal to the oracle's value is that from then on, so what is looked up in it is looked up once for all;
what is not stays as it is, and is found by its digest.
"""

from __future__ import annotations

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.entries import ClusterEntry
from kcontrol.core.cluster.model import Replica

_Made = tuple[Replica, ClusterEntry | None, Replica]


class SameValues:
    def __init__(self) -> None:
        self.true: dict[int, Replica] = {}
        """By offset, what the oracle has made of the log."""
        self._made: dict[tuple[int, int], _Made] = {}
        """By offset and version: the value before, the entry as that version reads it, the value after."""

    def is_true(self, value: Replica) -> None:
        self.true[value.offset] = value

    def known(self, before: Replica, offset: int, entry: ClusterEntry | None, code: int) -> Replica | None:
        made = self._made.get((offset, code))
        if made is None or made[0] is not before or made[1] is not entry:
            return None
        return made[2]

    def add(self, before: Replica, entry: ClusterEntry | None, code: int, after: Replica) -> Replica:
        true = self.true.get(after.offset)
        found = true if true is not None and true == after else after
        self._made[after.offset, code] = before, entry, found
        return found


class SharingMachine(AgentMachine):
    """An agent whose values are those of others, where they are the same."""

    values: SameValues

    def _made_of(self, offset: int, entry: ClusterEntry | None) -> Replica:
        before, code = self.replica, self.me.levels[1]
        known = self.values.known(before, offset, entry, code)
        if known is not None:
            return known
        return self.values.add(before, entry, code, super()._made_of(offset, entry))
