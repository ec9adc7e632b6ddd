"""Agents that have made different values of one log: what the digests in their beats show.

All that is known is that one of two is wrong. Where most agree, who differs from them ends (`liveness.differs_from_most`); of
two neither may, so it has to be told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kcontrol.core.cluster.liveness import Beat, Who
from kcontrol.core.cluster.model import Mark

OFFSETS = 64
"""So many of the newest at which digests were made are remembered."""


@dataclass(frozen=True, slots=True)
class DifferingValue:
    """others: agents whose value at an offset is another one."""

    offset: int
    others: tuple[str, ...]

    @property
    def text(self) -> str:
        return (
            f"has made another value of the cluster's log than {', '.join(self.others)}, as of offset {self.offset}: one of "
            "them is wrong, and which is not known. No two that differ confirm a snapshot, so the log may not be cut. Install "
            "one version of kcontrol on all hosts, and start these agents again: each reads the log anew"
        )


class OwnDifferences:
    """Between one agent and others, each told once an offset."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def new(self, others: Mapping[str, Mark], own: Mapping[int, str]) -> list[DifferingValue]:
        """others: newest marks by agent. own: digests by offset."""
        differing = {
            name: one.offset for name, one in others.items() if own.get(one.offset, one.digest) != one.digest
        }
        new = {name: at for name, at in differing.items() if self._told.get(name) != at}
        self._told = {name: at for name, at in self._told.items() if name in others} | new
        return [
            DifferingValue(offset, tuple(sorted(name for name, at in new.items() if at == offset)))
            for offset in sorted(set(new.values()))
        ]


class HeardMarks:
    """Of all agents, for whoever is none. offsets: so many are remembered."""

    def __init__(self, offsets: int = OFFSETS) -> None:
        self._offsets = offsets
        self._said: dict[int, dict[Who, str]] = {}

    def hear(self, beats: Iterable[Beat]) -> None:
        for beat in beats:
            if beat.mark.offset >= 0:
                at = self._said.setdefault(beat.mark.offset, {})
                at[beat.agent, beat.incarnation] = beat.mark.digest
            while len(self._said) > self._offsets:
                del self._said[min(self._said)]

    def differing(self, lives: Collection[Who]) -> dict[str, DifferingValue]:
        """By agent, as of the newest offset for which another one has a digest too. lives: all that are known; nothing else is
        remembered."""
        found: dict[str, DifferingValue] = {}
        for offset in sorted(self._said, reverse=True):
            said = {who: digest for who, digest in self._said[offset].items() if who in lives}
            self._said[offset] = said
            alike = len(set(said.values())) < 2
            for (agent, _), digest in said.items():
                if agent not in found and len(said) > 1:
                    others = [] if alike else [name for (name, _), other in said.items() if other != digest]
                    found[agent] = DifferingValue(offset, tuple(sorted(others)))
        return {agent: one for agent, one in found.items() if one.others}
