"""What the rows of a simulated step are, and whose: one for each offset that holds a record, with a shard, a time, and a
partition that it would be delivered to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcontrol.core.model import InputRange, InputSlice, Layout, PipelineSpec, StepBoundary
from kcontrol.core.step.assignment import Owners
from kcontrol.core.step.layout import writers_of
from tests.simulation.specs import holds_record

Row = tuple[str, int, int]
"""Input, partition, offset."""

_FIRST_MS = 1_000


def rows_of(spec: PipelineSpec, parts: Iterable[InputRange | InputSlice]) -> tuple[Row, ...]:
    """All rows at these offsets."""
    return tuple(
        (part.input, part.partition, offset)
        for part in parts
        for offset in range(part.from_, part.to)
        if holds_record(spec, part.partition, offset)
    )


def owner(row: Row, owners: Owners) -> int:
    """The node that a row is exchanged to. owners: the table in force."""
    name, partition, offset = row
    return owners[(offset * 5 + partition * 3 + len(name)) % len(owners)]


def delivered_to(row: Row, spec: PipelineSpec, layout: Layout) -> int:
    """The node that writes the output partition of a row."""
    _, partition, offset = row
    place = (partition + offset) % spec.outputs[0].partitions
    return next(node for node in range(spec.nodes) if place in writers_of(spec, layout, node)[0])


def rows_for(spec: PipelineSpec, boundary: StepBoundary, node: int, owners: Owners) -> tuple[Row, ...]:
    """The rows of a committed step that a node has in its state, where they were exchanged. owners: the table in force in
    that step."""
    if not boundary.layout.exchanges:
        return ()
    return tuple(sorted(row for row in rows_of(spec, boundary.inputs) if owner(row, owners) == node))


def event_times(rows: Sequence[Row]) -> tuple[int, ...]:
    """The greatest time that each of two watermark operators has seen, each of another input; 0: none."""
    return tuple(
        max((_FIRST_MS + 10 * offset for name, _, offset in rows if name == seen), default=0)
        for seen in ("in", "side")
    )


def digest_of(rows: Iterable[Row]) -> str:
    """Of rows, whatever their order."""
    first = second = 0
    for name, partition, offset in rows:
        first += (len(name) * 31 + partition) * 1_000_003 + offset
        second += (offset + 1) * (1 << 62)
    return f"{first % (1 << 64):016x}{second % (1 << 64):016x}"
