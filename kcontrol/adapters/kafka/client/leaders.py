"""Who leads the partitions of a topic, as one answer of one broker says: leader and leader epoch together, or
neither.

Of two answers they could be those of different terms. What is missing is an error, with the one sentence that
says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kcontrol.errors import RetriableError, TopicError

_NOBODY = -1


class NoPartitionError(TopicError):
    """The topic has no such partition."""


class NoLeaderError(RetriableError):
    """Nobody leads the partition at the moment."""


@dataclass(frozen=True, slots=True)
class Led:
    """Partitions by the node that leads them, and those that nobody leads."""

    by_node: dict[int, list[int]] = field(default_factory=dict)
    by_nobody: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as one broker knows it. By partition: `leaders` holds the node id, -1 while there is none;
    `epochs` its epoch."""

    name: str
    topic_id: uuid.UUID
    leaders: Mapping[int, int]
    epochs: Mapping[int, int]

    def leader(self, partition: int) -> int:
        """The node that leads a partition. Raises NoPartitionError or NoLeaderError."""
        return next(iter(self.by_node([partition])))

    def by_node(self, partitions: Iterable[int]) -> dict[int, list[int]]:
        """Partitions by the node that leads them. Raises NoPartitionError or NoLeaderError."""
        led = self.led(partitions)
        if led.by_nobody:
            raise NoLeaderError(f"{self.where(led.by_nobody[0])} has no leader")
        return led.by_node

    def led(self, partitions: Iterable[int]) -> Led:
        """The same where some may have no leader. Raises NoPartitionError."""
        led = Led()
        for partition in partitions:
            node = self.leaders.get(partition)
            if node is None:
                raise NoPartitionError(
                    f"{self.where(partition)}: there is no such partition; the topic has {len(self.leaders)}."
                )
            if node == _NOBODY:
                led.by_nobody.append(partition)
            else:
                led.by_node.setdefault(node, []).append(partition)
        return led

    def where(self, partition: int) -> str:
        """A partition in words."""
        return f"topic {self.name!r}, partition {partition}"
