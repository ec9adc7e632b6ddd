"""How long input has been waiting: when what is not in a committed step yet was first reported by its node.

An input's `Received` records say how far it reaches, with the time of the record. The time of the first one
that reached beyond the last committed step is the time since which something waits: at most the age of the
oldest waiting record, and less by what the node needed to see and report it (10 ms by default).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from kcontrol.core.model import Received

MAX_MARKS = 4_096
"""Of one partition. With more, pairs are merged under the earlier time: the lag is then
said too large, never too small."""

_Place = tuple[str, int]


class InputBacklog:
    """For one pipeline; partitions are known by (input, partition)."""

    def __init__(self) -> None:
        self._marks: dict[_Place, deque[tuple[int, int]]] = {}

    def reported(self, received: Received, at_ms: int, next_from: Mapping[_Place, int]) -> None:
        """A node has seen more input. next_from: by partition, where the next step begins."""
        self.reaches(
            received.input, ((part.partition, part.to) for part in received.partitions), at_ms, next_from
        )

    def reaches(
        self, input_name: str, ends: Iterable[tuple[int, int]], at_ms: int, next_from: Mapping[_Place, int]
    ) -> None:
        """The same by whoever else has looked. ends: (partition, the offset after the last committed
        record)."""
        for partition, end in ends:
            place = (input_name, partition)
            marks = self._marks.setdefault(place, deque())
            reached = marks[-1][1] if marks else next_from.get(place, -1)
            if end > reached:
                marks.append((at_ms, end))
            if len(marks) > MAX_MARKS:
                self._marks[place] = _merged(marks)

    def committed(self, next_from: Mapping[_Place, int]) -> None:
        """A step has been committed, and what it holds waits no more."""
        for place, marks in self._marks.items():
            end = next_from.get(place, -1)
            while marks and marks[0][1] <= end:
                marks.popleft()

    def since_ms(self, input_name: str) -> int | None:
        """When the oldest input that waits was reported; None when nothing waits."""
        found = [marks[0][0] for (name, _), marks in self._marks.items() if name == input_name and marks]
        return min(found, default=None)


def _merged(marks: deque[tuple[int, int]]) -> deque[tuple[int, int]]:
    pairs = list(marks)
    halved = [(pairs[at][0], pairs[min(at + 1, len(pairs) - 1)][1]) for at in range(0, len(pairs), 2)]
    return deque(halved)
