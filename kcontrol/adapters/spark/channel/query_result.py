"""What comes of one query in one attempt."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model import OutputSlice, Skipped


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What one query's batch wrote (or recomputed)."""

    outputs: tuple[OutputSlice, ...]
    skipped: tuple[Skipped, ...]
    watermark_moved: bool
    late_rows: int | None = None
    """That its watermark dropped; None if it has none or no state."""
    max_times_ms: tuple[int, ...] = ()
    """The greatest event time that each of its watermarks has seen, where nodes share one; 0: none."""
