"""What a simulated node keeps on its disk."""

from __future__ import annotations


class Directory:
    """What a node's disk holds: by step, the signatures of all steps up to it that made the state."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[object, ...]] = {}
        self.assignment = 0
        """By which its shards are this node's."""

    def copy(self) -> Directory:
        """What a new incarnation is seeded with."""
        twin = Directory()
        twin.states, twin.assignment = dict(self.states), self.assignment
        return twin

    def openable(self, assignment: int = 0) -> tuple[int, ...]:
        """Newest first. assignment: by which the node's shards are its own now."""
        if not own_counts(self.assignment, assignment):
            return ()
        return tuple(sorted((step for step in self.states if step), reverse=True))


def own_counts(directory: int, now: int) -> bool:
    """Whether a directory of one assignment may be opened by another."""
    return directory == now
