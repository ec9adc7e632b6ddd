"""The nodes: what they were told, what is waited for, and when each was heard last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kcontrol.core.model import Command

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Wait:
    """What a node is waited for, and since when. Another `what` is another wait and starts anew."""

    what: tuple[str | int, ...]
    since_ms: int


@dataclass(frozen=True, slots=True)
class NodesState:
    """Under one claim, but for what was forgiven."""

    serial: int = 0
    """Of the newest command."""
    commands: Mapping[int, Command] = field(default_factory=dict)
    """By node, the newest."""
    waits: Mapping[int, Wait] = field(default_factory=dict)
    """By node."""
    assembled: bool = False
    """All nodes have been in place at once, and none has been lost since."""
    outdated: int = -1
    """Incarnations below this offset go by a definition that another one has taken the place of: they end."""
    forgiven: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By node, the (epoch, serial) of the failed state that a resume request lifted."""

    def claiming(self) -> NodesState:
        """Nobody was told anything."""
        return NodesState(outdated=self.outdated, forgiven=self.forgiven)

    def outdated_below(self, offset: int) -> NodesState:
        """Another definition lies there."""
        return replace(self, outdated=offset)

    def told(self, command: Command) -> NodesState:
        """A node is."""
        return replace(self, serial=command.serial, commands={**self.commands, command.node: command})

    def untold(self, node: int) -> NodesState:
        """What the node was told is over."""
        return replace(self, commands=_without(self.commands, node))

    def all_untold(self) -> NodesState:
        """No command counts any more: nodes go by another claim."""
        return replace(self, commands={})

    def waiting(self, node: int, wait: Wait) -> NodesState:
        """The node is waited for from now on."""
        return replace(self, waits={**self.waits, node: wait})

    def not_waiting(self, node: int) -> NodesState:
        """The node is not waited for any more."""
        return replace(self, waits=_without(self.waits, node)) if node in self.waits else self

    def waiting_later(self, gap_ms: int) -> NodesState:
        """For so long nobody listened: that is not a part of any wait."""
        waits = {node: Wait(wait.what, wait.since_ms + gap_ms) for node, wait in self.waits.items()}
        return replace(self, waits=waits)

    def whole(self) -> NodesState:
        """All are in place."""
        return self if self.assembled else replace(self, assembled=True)

    def not_whole(self) -> NodesState:
        """One was lost, or all have ended."""
        return replace(self, assembled=False) if self.assembled else self

    def forgiving(self, failed: Mapping[int, tuple[int, int]]) -> NodesState:
        """These failed states are lifted, and no others."""
        return replace(self, forgiven=failed)


@dataclass(frozen=True, slots=True)
class Hearing:
    """Signs of life. It changes with each, and so is a part of its own."""

    heard: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By node: (incarnation, when its newest state came in)."""
    witnesses: Mapping[int, int] = field(default_factory=dict)
    """By node: what the log's timestamp of its newest state is ahead of the monotonic clock when that came
    in."""
    caught_up_ms: int = -1
    """Since when silence of a node means something; -1: nothing, its records may just not have been read
    yet."""

    def heard_from(self, node: int, incarnation: int, now_ms: int, stamped_ms: int) -> Hearing:
        """A sign of life was read now; the log's clock showed its timestamp, or later."""
        heard, witnesses = (
            {**self.heard, node: (incarnation, now_ms)},
            {**self.witnesses, node: stamped_ms - now_ms},
        )
        return Hearing(heard, witnesses, self.caught_up_ms)

    def without_witnesses(self) -> Hearing:
        """Another tenure begins."""
        return replace(self, witnesses={})

    def deaf(self) -> Hearing:
        """Records may not be read as they come."""
        return replace(self, caught_up_ms=-1)

    def caught_up(self, now_ms: int) -> Hearing:
        """What there was is read by now."""
        return replace(self, caught_up_ms=now_ms)


def _without(mapping: Mapping[int, _V], key: int) -> Mapping[int, _V]:
    return {one: value for one, value in mapping.items() if one != key}
