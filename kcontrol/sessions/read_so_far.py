"""How far the steps that were read of a log have read the inputs: where a node begins to watch them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kcontrol.core.model import InputSlice, InputSpec, StepBoundary


@dataclass(frozen=True, slots=True)
class Read:
    """By input and partition. to: the offset of the next step's first record. newest: of the newest step that has found
    records there, what it has read."""

    to: Mapping[tuple[str, int], int]
    newest: Mapping[tuple[str, int], InputSlice]

    @classmethod
    def of(cls, boundaries: Iterable[StepBoundary]) -> Read:
        """By the boundaries in their order; a reset says of every partition where it goes on."""
        to: dict[tuple[str, int], int] = {}
        newest: dict[tuple[str, int], InputSlice] = {}
        for boundary in boundaries:
            if boundary.reset is not None:
                to.clear()
                newest.clear()
            to |= {(part.input, part.partition): part.to for part in boundary.inputs}
            newest |= {(part.input, part.partition): part for part in boundary.inputs if part.records}
        return cls(to, newest)

    def up_to(self, input_: InputSpec, takes: Callable[[int], bool]) -> dict[int, int]:
        """Where to begin in the partitions of an input that are taken, those that no step has read among them."""
        known = {p: self.to.get((input_.name, p), start) for p, start in enumerate(input_.start_offsets)}
        return {p: offset for p, offset in known.items() if takes(p)}

    def last(self, input_: InputSpec, partitions: Iterable[int]) -> dict[int, InputSlice]:
        """Of these partitions, what the newest step that has found records there has read."""
        return {p: self.newest[input_.name, p] for p in partitions if (input_.name, p) in self.newest}
