"""`kcontrol layout` of a pipeline that is stopped, on the logs of a real broker: what it refuses, and what it records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from kcontrol.apps.layout import LayoutPlan, change_layout, plan_layout
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Assignment, PipelineSpec, StepRecord
from kcontrol.errors import ConfigurationError, LeftOutError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.kafka.test_lost_nodes import Lost, cluster_of_its_own
from tests.unit.core.made import boundary, checkpoint
from tests.unit.core.test_layout_change import FOUR

FIRST, SECOND = boundary(1, nodes=2), boundary(2, (6, 1), (7, 2), nodes=2)
SAVED = checkpoint(1, 2)
FREE = replace(FOUR, stateful=False, exchanges=(), owners=())
"""Without state, and nothing to exchange."""


class Stopped(Lost):
    """A pipeline of two nodes at which nobody is at work."""

    async def plan(self, nodes: int | None, shards: int | Literal["auto"] | None = None) -> LayoutPlan:
        return await plan_layout(self.settings, "p", nodes, None, self.directory, shards)

    async def steps(self) -> StepsView:
        async with pipeline_logs(self.settings, "p") as logs:
            await logs.read()
            return logs.committed


Play = Callable[[Stopped], Coroutine[None, None, None]]


def played(
    settings: ClusterSettings, directory: Path, spec: PipelineSpec, play: Play, *steps: StepRecord
) -> None:
    async def run() -> None:
        async with cluster_of_its_own(settings, directory, Stopped) as stopped:
            await stopped.say(spec)
            await stopped.commit(*steps)
            await play(stopped)

    asyncio.run(run())


def test_a_change_is_recorded_over_the_last_step_and_is_what_the_next_one_begins_with(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    async def play(stopped: Stopped) -> None:
        plan = await stopped.plan(3)
        assert (plan.number, plan.step, len(plan.change.moves)) == (1, 1, 2)
        made = await change_layout(stopped.settings, plan)
        assert (await stopped.steps()).assignment == made
        assert (made.nodes, made.live, sorted({*made.owners})) == (3, False, [0, 1, 2])
        back = await stopped.plan(2)
        assert (back.number, back.change.before, back.change.nodes) == (2, 3, 2)

    played(settings, tmp_path, FOUR, play, FIRST, SAVED)


def test_a_step_that_came_meanwhile_is_not_made_part_of_the_old_layout(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    async def play(stopped: Stopped) -> None:
        plan = await stopped.plan(3)
        await stopped.commit(SECOND)
        with pytest.raises(
            NotNowError, match="has gone on to step 2 while its layout was being changed after step 1"
        ):
            await change_layout(stopped.settings, plan)
        assert (await stopped.steps()).assignment is None

    played(settings, tmp_path, FOUR, play, FIRST, SAVED)


def test_of_two_that_change_it_at_once_one_does(settings: ClusterSettings, tmp_path: Path) -> None:
    async def play(stopped: Stopped) -> None:
        one, other = await stopped.plan(3), await stopped.plan(1)
        made = await change_layout(stopped.settings, one)
        with pytest.raises(NotNowError, match="while its layout was being changed"):
            await change_layout(stopped.settings, other)
        assert (await stopped.steps()).assignment == made

    played(settings, tmp_path, FOUR, play, FIRST, SAVED)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ((), "has no committed step yet"),
        (
            (FIRST,),
            "its last step is 1, and the newest that is saved is none: start it as it was and stop it",
        ),
        ((FIRST, SAVED, SECOND), "its last step is 2, and the newest that is saved is 1"),
    ],
    ids=["no step", "never saved", "not saved since"],
)
def test_state_that_is_not_saved_is_not_left_behind(
    settings: ClusterSettings, tmp_path: Path, steps: tuple[StepRecord, ...], why: str
) -> None:
    async def play(stopped: Stopped) -> None:
        with pytest.raises(ConfigurationError, match=why):
            await stopped.plan(3)

    played(settings, tmp_path, FOUR, play, *steps)


def test_without_state_it_is_changed_once_it_was_and_before_that_by_another_number_in_the_file(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    async def play(stopped: Stopped) -> None:
        with pytest.raises(
            ConfigurationError, match="give it nodes = 3 in its definition, and start it again"
        ):
            await stopped.plan(3)
        await stopped.say(replace(FREE, nodes=1, inputs=(replace(FREE.inputs[0], node_of=(0,) * 4),)))
        await change_layout(stopped.settings, await stopped.plan(2))
        made = await change_layout(stopped.settings, await stopped.plan(1))
        assert (made.number, made.nodes) == (2, 1)

    played(settings, tmp_path, FREE, play, FIRST)


def test_as_many_shards_as_fit_the_nodes_are_a_power_of_two_four_for_each(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    two = replace(FREE, layout=replace(FREE.layout, shuffle_partitions=2))

    async def play(stopped: Stopped) -> None:
        plan = await stopped.plan(None, "auto")
        assert (plan.change.shards_before, len(plan.change.owners), plan.change.nodes) == (2, 8, 2)

    played(settings, tmp_path, two, play, FIRST)


FILE = """
import kcontrol

pipeline = kcontrol.Pipeline(
    "p", inputs=[kcontrol.KafkaInput("rows", topic="input")], outputs=[kcontrol.KafkaOutput("out", topic="output")], nodes=3
)

@pipeline.query
def q(rows):
    return {"out": rows.select("value")}
"""


def test_a_node_that_there_is_not_any_more_ends_whatever_number_its_file_says(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    """Where the layout was changed while the pipeline ran."""
    (tmp_path / "p.py").write_text(FILE)

    async def play(stopped: Stopped) -> None:
        made = Assignment("p", 1, 1, 2, (0, 1) * 3, (), (), 0, -1, "r", 1, live=True)
        await stopped.commit(made)
        ended = await stopped.run("node", "p.py", "--node", "2")
        assert ended.returncode == LeftOutError.exit_code, ended.stderr
        assert "has 2 nodes since its layout was changed while it ran, and no node 2" in ended.stderr

    played(settings, tmp_path, replace(FOUR, nodes=3), play, boundary(1, nodes=3), checkpoint(1, 3))
