"""What a log of steps records twice, told so that a person can judge it: which steps,
where, and what readers have seen.

The newest record of a step counts, for readers, for nodes and for compaction; what an earlier one wrote stays
in the outputs all the same, for a committed transaction can't be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcontrol.core.log.steps_view import Double, StepsView, evolve
from kcontrol.core.model import LoggedStep, OutputSlice, StepBoundary


@dataclass(frozen=True, slots=True)
class VoidStep:
    """A boundary that a later record has taken the place of. written: what it wrote, which
    readers of the outputs have seen."""

    step: int
    offset: int
    written: tuple[OutputSlice, ...]


@dataclass(frozen=True, slots=True)
class Twice:
    """One double, and the steps that it made void; none for a checkpoint. accepted: a
    person has said that it may be so."""

    double: Double
    void: tuple[VoidStep, ...]
    accepted: bool


def doubles_of(pipeline: str, records: Iterable[LoggedStep]) -> list[Twice]:
    """All doubles of a log that is read from its beginning, oldest first.

    Raises DamagedRecordError when it is damaged in another way.
    """
    view = StepsView(pipeline)
    standing: list[VoidStep] = []
    found: list[tuple[Double, tuple[VoidStep, ...]]] = []
    for logged in records:
        before = len(view.doubles)
        view = evolve(view, logged)
        void: tuple[VoidStep, ...] = ()
        if isinstance(logged.record, StepBoundary):
            void = tuple(one for one in standing if one.step >= logged.record.step)
            standing = [one for one in standing if one.step < logged.record.step]
            written = tuple(each for each in logged.record.outputs if each.records)
            standing.append(VoidStep(logged.record.step, logged.offset, written))
        if len(view.doubles) > before:
            found.append((view.doubles[-1], void))
    return [Twice(double, void, double not in view.doubles) for double, void in found]
