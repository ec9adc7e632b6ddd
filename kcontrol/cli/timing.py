"""Where the time of committed steps went, as `kcontrol steps --timing` prints it: a line a step, a column a
mark."""

from __future__ import annotations

import json

from kcontrol.core.model import StepBoundary
from kcontrol.core.step.timing import MARKS, step_marks, step_phases
from kcontrol.wire.json import to_json

_COLUMNS = tuple(MARKS)[1:]
_WIDTHS = {name: max(len(name), 6) for name in _COLUMNS}


def timing_header() -> str:
    """Above the lines: each column is the ms from the mark before it, the last one from the first mark to the
    last."""
    return "  ".join(
        [f"{'step':>7}", f"{'records':>9}", *(f"{name:>{_WIDTHS[name]}}" for name in _COLUMNS), f"{'ms':>7}"]
    )


def timing_line(boundary: StepBoundary, after: StepBoundary | None) -> str:
    """One step; `-` for what is not known, or not yet."""
    marks = step_marks(boundary, after)
    spent = step_phases(marks)
    took = [f"{spent.get(name, '-'):>{_WIDTHS[name]}}" for name in _COLUMNS]
    return "  ".join([f"{boundary.step:>7}", f"{_records(boundary):>9,}", *took, f"{_total(marks):>7}"])


def timing_json(boundary: StepBoundary, after: StepBoundary | None) -> str:
    """The same as an object on one line, with the times themselves, and those of each node."""
    marks = step_marks(boundary, after)
    end = to_json(after)["before"] if after is not None else None
    facts = {
        "pipeline": boundary.pipeline,
        "step": boundary.step,
        "records": _records(boundary),
        "marks_ms": marks,
        "phases_ms": step_phases(marks),
        "total_ms": _total(marks),
        "work": to_json(boundary)["work"],
        "end": end,
    }
    return json.dumps(facts, separators=(",", ":"))


def _records(boundary: StepBoundary) -> int:
    return sum(piece.records for piece in boundary.inputs)


def _total(marks: dict[str, int]) -> int:
    times = tuple(marks.values())
    return times[-1] - times[0]
