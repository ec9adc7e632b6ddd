"""Replayed steps with records as given, for tests of what takes them."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.model import OutputLayout
from kcontrol.replay.delivery import ReplayedRecord, ReplayedStep
from tests.support.samples import boundary

OUTPUTS = {"totals": 3, "copies": 2}
"""Partitions by output."""


def record(
    output: str = "totals",
    partition: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ReplayedRecord:
    return ReplayedRecord(output, partition, key, value, headers)


def replayed(number: int, *records: ReplayedRecord, last_node: bool = True) -> ReplayedStep:
    """A step of a pipeline with two outputs."""
    made = boundary("p", number)
    outputs = tuple(OutputLayout(name, partitions, 1, "exact") for name, partitions in OUTPUTS.items())
    return ReplayedStep(replace(made, layout=replace(made.layout, outputs=outputs)), records, last_node)
