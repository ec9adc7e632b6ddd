"""The change of the layout under way, who makes ready for it, and what became of the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.model import LayoutStatus
from kcontrol.core.step.layout_change import LayoutChange


@dataclass(frozen=True, slots=True)
class LiveChange:
    """From the request until it is in the log, or given up. target: what it makes of the definition with this fingerprint.
    replaced: nodes that are to be other processes."""

    request_id: str
    fingerprint: str
    target: LayoutChange
    begun_ms: int
    """What its time counts from."""
    replaced: tuple[int, ...] = ()
    from_step: int = -1
    """Who copies has to have a checkpoint of this step, or a newer one; -1: not all who are to be nodes have been there."""
    copying_ms: int = 0
    """Since when there is such a checkpoint."""
    held_ms: int = -1
    """Since when all have copied, and no step is made before the change is in the log; -1: steps go on."""
    switched: int = 0
    """The step that it is made over, once all nodes were told to save that; 0: not yet."""

    @property
    def held(self) -> bool:
        """Whether no step is made before it is in the log."""
        return self.held_ms >= 0


@dataclass(frozen=True, slots=True)
class Changing:
    """At most one is under way."""

    now: LiveChange | None = None
    told: LayoutStatus | None = None
    """For the status: how far it is, or what became of the newest that was asked for."""
    heard: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """By node that is to be: the process that makes ready for it, and when it was last heard of under this claim."""
    doubted: str = ""
    """The request of which a predecessor may have said that it is over, and what it said can't be read any more."""

    def wants_checkpoint(self, newest: int) -> bool:
        """Whether one is due for what is to be copied. newest: the step of the one that there is."""
        return self.now is not None and self.now.from_step > newest

    @property
    def keeps_checkpoint(self) -> bool:
        """Whether none is due by the clock: the newest is being copied, and another one might take its place."""
        return self.now is not None and self.now.copying_ms > 0

    def heard_from(self, node: int, uuid: str, now_ms: int) -> Changing:
        """A sign of life was read as it came."""
        return replace(self, heard={**self.heard, node: (uuid, now_ms)})

    def waiting_later(self, gap_ms: int) -> Changing:
        """For so long nobody listened."""
        now = self.now
        if now is None:
            return self
        held_ms = now.held_ms + gap_ms if now.held else now.held_ms
        return replace(self, now=replace(now, begun_ms=now.begun_ms + gap_ms, held_ms=held_ms))

    def at(self, change: LiveChange | None) -> Changing:
        """This is under way from now on."""
        return replace(self, now=change)

    def telling(self, told: LayoutStatus) -> Changing:
        """People are told."""
        return replace(self, told=told)

    def over(self, told: LayoutStatus) -> Changing:
        """Nothing is under way any more."""
        return replace(self, now=None, told=told)

    def doubting(self, request_id: str) -> Changing:
        """Somebody who had been replaced has written over what a predecessor had said."""
        return replace(self, doubted=request_id)

    def claiming(self) -> Changing:
        """Nobody was heard under this claim, and what was begun under another is begun again."""
        return Changing(told=self.told, doubted=self.doubted)
