"""A process that makes ready to be a node of another layout plans its queries by the checkpoint that it has copied."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.apps import relaying
from kcontrol.core.model import Checkpoint, PipelineSpec, StepBoundary
from kcontrol.errors import CheckpointError
from tests.unit.core.made import boundary
from tests.unit.core.test_layout_change import folded
from tests.unit.sessions.test_making_ready import MORE, STEP, _logs, _World, world

__all__ = ["world"]


@pytest.mark.parametrize(("newer", "planned_by"), [(True, [STEP, STEP + 1]), (False, [STEP])])
def test_what_can_not_be_planned_by_a_checkpoint_that_is_gone_is_planned_by_a_newer_one_if_there_is_one(
    newer: bool, planned_by: list[int], world: _World
) -> None:
    planned: list[int] = []

    class Copied(relaying.AheadCopy):
        def copy(self, checkpoint: Checkpoint) -> None:
            self.step = checkpoint.step

    async def scenario() -> None:
        logs = _logs(MORE, saved=world.checkpoint())

        def plan(_bound: Any, _spec: PipelineSpec, checkpoint: Checkpoint, _last: StepBoundary) -> Any:
            planned.append(checkpoint.step)
            if checkpoint.step > STEP:
                return SimpleNamespace(names={"q"})
            if newer:
                more = (boundary(STEP + 1, (7, 2), (8, 3), nodes=2), replace(checkpoint, step=STEP + 1))
                logs.committed = folded(*more, view=logs.committed)
            raise CheckpointError("there is no such part")

        with patch.object(relaying, "AheadCopy", Copied):
            it = world.process(2, plan=plan)
            said = await world.until(lambda said: said.copied_step > 0, it, logs)
        assert said.copied_step == planned_by[-1]
        assert planned == planned_by
        assert it.prepared is not None
        assert (it.prepared.ahead is not None) == newer

    world.run(scenario)
