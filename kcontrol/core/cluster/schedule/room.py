"""Whether demands by tags can be met by the slots that there are: maximum flow over the few kinds of tags."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from kcontrol.core.cluster.model import Agent, TaskSpec

Tags = frozenset[str]
NO_TAGS: Tags = frozenset()


def tags_of(one: Agent | TaskSpec) -> Tags:
    return frozenset(one.tags) if one.tags else NO_TAGS


def supply_of(agents: Iterable[Agent]) -> dict[Tags, int]:
    """Slots, by the tags that their agents have."""
    supply: dict[Tags, int] = {}
    for agent in agents:
        tags = tags_of(agent)
        supply[tags] = supply.get(tags, 0) + agent.slots
    return supply


class Room:
    """supply: slots, by the tags that their agents have."""

    def __init__(self, supply: Mapping[Tags, int]) -> None:
        self.total = sum(supply.values())
        self._supply = list(supply.items())
        if len(supply) > 1:
            self._supply.sort(key=lambda item: sorted(item[0]))

    def eligible(self, tags: Tags) -> int:
        """Slots on agents with all of these tags."""
        if not tags:
            return self.total
        return sum(slots for has, slots in self._supply if tags <= has)

    def fits(self, demand: Mapping[Tags, int]) -> bool:
        """Whether so many units, by the tags that they ask for, find slots at the same time."""
        if sum(demand.values()) > self.total:
            return False
        if not any(tags and n for tags, n in demand.items()):
            return True
        kinds = [(tags, n) for tags, n in sorted(demand.items(), key=lambda item: sorted(item[0])) if n]
        flow = _Flow([tags for tags, _ in kinds], self._supply)
        return all(flow.send(kind, n) for kind, (_, n) in enumerate(kinds))


class _Flow:
    """Demand of each kind to supply of each kind, by augmenting paths (Ford and Fulkerson, breadth first)."""

    def __init__(self, kinds: list[Tags], supply: list[tuple[Tags, int]]) -> None:
        self._kinds = kinds
        self._has = [tags for tags, _ in supply]
        self._left = [slots for _, slots in supply]
        self._flow = [[0] * len(supply) for _ in kinds]

    def send(self, kind: int, n: int) -> bool:
        """Send n units of a kind, moving others aside; False if not all of them go."""
        while n:
            sent = self._augment(kind, n)
            if not sent:
                return False
            n -= sent
        return True

    def _augment(self, kind: int, most: int) -> int:
        came: dict[int, tuple[int, int]] = {}
        """By supply: the kind that reached it, and from which supply that one would be moved, or -1."""
        queue: deque[tuple[int, int]] = deque([(kind, -1)])
        seen = {kind}
        while queue:
            at, origin = queue.popleft()
            for place, has in enumerate(self._has):
                if place in came or not self._kinds[at] <= has:
                    continue
                came[place] = (at, origin)
                if self._left[place]:
                    return self._push(came, place, most)
                for other in range(len(self._kinds)):
                    if other not in seen and self._flow[other][place]:
                        seen.add(other)
                        queue.append((other, place))
        return 0

    def _push(self, came: Mapping[int, tuple[int, int]], place: int, most: int) -> int:
        path, amount, at = [], min(most, self._left[place]), place
        while at != -1:
            kind, origin = came[at]
            path.append((kind, at, origin))
            if origin != -1:
                amount = min(amount, self._flow[kind][origin])
            at = origin
        self._left[place] -= amount
        for kind, to, origin in path:
            self._flow[kind][to] += amount
            if origin != -1:
                self._flow[kind][origin] -= amount
        return amount
