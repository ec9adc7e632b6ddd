"""What only stands by is started a little later than it is placed.

When a host has died, who stood by takes over its nodes, and another coordinator its pipelines; in the same moment a new standby
and a new coordinator are placed, on a small cluster beside them. What these import takes a processor for two seconds, for which
the takeover would wait. Nothing but time depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.core.cluster.model import Place, Unit


class Spares:
    """Of one agent. after_ms: from the first time that it is to be started here to its start."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms
        self._due: dict[Unit, tuple[int, int]] = {}
        """By unit: the generation of its place, and since when it is to run here."""

    def may_start(self, unit: Unit, generation: int, now_ms: int) -> bool:
        """Another placement waits anew."""
        found = self._due.get(unit)
        if found is None or found[0] != generation:
            self._due[unit] = found = generation, now_ms
        return now_ms - found[1] >= self._after_ms


def is_spare(coordinator: Place, all_of_them: Iterable[Place]) -> bool:
    """Whether another one was placed before, and so is at work."""
    return any(one.generation < coordinator.generation for one in all_of_them)
