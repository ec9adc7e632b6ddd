"""The real sessions, of which one dies at a chosen stage of each change of the layout that is made while they are at work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.core.events import ControlSeen, StepSeen
from tests.simulation.live_layout import asked
from tests.simulation.sessions.faults import kill
from tests.simulation.sessions.fleet import SessionsFleet
from tests.simulation.sessions.live_faults import is_switching, live_layout_asked, live_made_ready
from tests.simulation.sessions.loop import Process
from tests.simulation.sessions.processes import NodeProcess, SimulatedProcess, witnessed
from tests.simulation.sessions.schedule import SessionsSchedule, undisturbed

_FAULTS = (live_layout_asked, live_made_ready, live_made_ready)
_NODE = (
    *("ControlSeen.LayoutRequest", "StepPinned", "PartSaved", "StepSeen.Checkpoint", "StepSeen.Assignment"),
    *("Joined", "EngineOpened"),
)
_COORDINATOR = (
    *(
        "ControlSeen.LayoutRequest",
        "ControlSeen.LayoutReady",
        "ControlSeen.CheckpointPart",
        "PartitionsAdded",
    ),
    *("CheckpointCommitted", "ControlSeen.PipelineSpec", "ControlSeen.NodeJoin"),
)
STAGES = [("node", point) for point in _NODE] + [("coordinator", point) for point in _COORDINATOR]
_MOST_SCHEDULES = 60


@dataclass
class _Aim:
    """At whoever of a kind comes to a point first, once for each request: what it does of itself after hearing of it
    is nothing. doomed: it has died just now, and nobody knows yet."""

    kind: str
    point: str
    request: str = ""
    doomed: SimulatedProcess | None = None
    deaths: int = 0

    def hear(self, fleet: SessionsFleet, process: Process, event: Any) -> None:
        request = fleet.world.view.layout_request()
        if request is None or request.request_id == self.request or self.doomed is not None:
            return
        if asked(fleet.world) is None and not is_switching(fleet):
            return
        is_node = isinstance(process, NodeProcess)
        if is_node != (self.kind == "node") or _name(event) != self.point:
            return
        assert isinstance(process, SimulatedProcess)
        self.request, self.doomed = request.request_id, process
        process.is_dead = True


def _name(event: Any) -> str:
    name = type(event).__name__
    is_record = isinstance(event, ControlSeen | StepSeen)
    return f"{name}.{type(event.logged.record).__name__}" if is_record else name


class _AtStage(SessionsSchedule):
    """Nothing else goes wrong."""

    def __init__(self, seed: int, counts: Counter[str], aim: _Aim) -> None:
        super().__init__(seed, counts, (), seed % 2 == 0, 2 + seed % 2, wide=True)
        self._aim = aim
        self.faults, self.fault_rate, self.input_rate = list(_FAULTS), 0.5, 0.5

    def _keep_time(self) -> bool:
        doomed, self._aim.doomed = self._aim.doomed, None
        if doomed is not None and doomed in self.fleet.alive():
            self._aim.deaths += 1
            if isinstance(doomed, NodeProcess):
                kill(self.fleet, doomed)
            else:
                self.fleet.kill(doomed)
        return super()._keep_time()


def _run(seed: int, counts: Counter[str], aim: _Aim) -> None:
    heard = SessionsFleet._heard

    def hear(fleet: SessionsFleet, process: Process, event: Any) -> None:
        heard(fleet, process, event)
        aim.hear(fleet, process, event)

    with undisturbed(), witnessed(), patch.object(SessionsFleet, "_heard", hear):
        _AtStage(seed, counts, aim).run(to_progress=True)


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "point"), STAGES)
def test_whoever_dies_at_a_stage_of_a_change_breaks_no_invariant(kind: str, point: str) -> None:
    counts: Counter[str] = Counter()
    aim = _Aim(kind, point)
    for seed in range(_MOST_SCHEDULES):
        try:
            _run(seed, counts, aim)
        except Exception as error:
            error.add_note(f"seed {seed}: a {kind} dies at {point}")
            raise
        if aim.deaths >= 5 and counts["layout changed while it ran"] >= 3:
            return
    raise AssertionError(f"{aim.deaths} died in {_MOST_SCHEDULES} schedules, {counts}")
