"""The real sessions, of a pipeline that is reset while they are at work or at rest."""

from __future__ import annotations

from collections import Counter

from kcontrol.core.model import DesiredMode
from tests.simulation.reset_faults import write_reset
from tests.simulation.sessions.faults import kill
from tests.simulation.sessions.fleet import SessionsFleet
from tests.simulation.sessions.schedule import run_sessions

_SCHEDULES = 20
"""The last one goes back to a step that goes back to another."""


def test_no_schedule_of_sessions_with_resets_breaks_an_invariant() -> None:
    counts: Counter[str] = Counter()

    def pipeline_reset(fleet: SessionsFleet) -> bool:
        world, random = fleet.world, fleet.random
        if not world.boundaries:
            return False
        if random.random() < 0.5:
            fleet.want(DesiredMode.STOPPED)
        for node in list(fleet.nodes):
            if random.random() < 0.5:
                kill(fleet, node)
        done = write_reset(world, random, counts)
        fleet.want(DesiredMode.RUNNING)
        fleet.network.notify()
        return done

    for seed in range(1, _SCHEDULES + 1):
        try:
            run_sessions(
                seed, counts, likely=(pipeline_reset,) * 3, epochs=seed % 2 == 0, stages=1 + seed % 3
            )
        except AssertionError as error:
            error.add_note(f"seed {seed}, with pipeline_reset")
            raise
    assert counts["steps made void"] > 0, counts
