"""The real sessions, of a pipeline whose layout is changed while they are at work."""

from __future__ import annotations

from collections import Counter

from tests.simulation.sessions.live_faults import LIVE
from tests.simulation.sessions.schedule import run_sessions

_BEGIN, _SCHEDULES = 41, 4


def test_no_schedule_of_sessions_with_live_changes_of_the_layout_breaks_an_invariant() -> None:
    counts: Counter[str] = Counter()
    for seed in range(_BEGIN, _BEGIN + _SCHEDULES):
        try:
            run_sessions(seed, counts, likely=LIVE * 3, epochs=seed % 2 == 0, stages=2 + seed % 2, wide=True)
        except AssertionError as error:
            error.add_note(f"seed {seed}, with live_faults.LIVE")
            raise
    assert counts["layout changed while it ran"] > 0, counts
