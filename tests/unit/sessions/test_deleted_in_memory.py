"""A pipeline that is deleted under a coordinator and a node that work, and submitted again, on a Kafka in
memory."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from kcontrol.core.events import Exit
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import Desired, DesiredMode, StepBoundary
from tests.fakes.memory_kafka import STEPS, MemoryControlLog
from tests.unit.core.made import SPEC
from tests.unit.sessions.test_checkpoints_in_memory import TWO, Cluster, play

BY_THE_CLOCK = replace(TWO, nodes=1, inputs=SPEC.inputs, checkpoint=SPEC.checkpoint)


def _steps(cluster: Cluster) -> list[int]:
    return [one.record.step for one in cluster.log if isinstance(one.record, StepBoundary)]


def test_who_works_for_a_deleted_pipeline_ends_and_another_of_its_name_begins_with_step_1() -> None:
    async def scenario(cluster: Cluster) -> None:
        control = MemoryControlLog(cluster.kafka, "p")
        await control.append([BY_THE_CLOCK, Desired("p", DesiredMode.RUNNING, "r0")])
        coordinator = cluster.coordinator()
        cluster.spawn(cluster._follow())
        node, _ = cluster.node(0, set())
        await cluster.until(lambda: len(_steps(cluster)) >= 3)

        await control.append([], ["p/spec"])
        assert await coordinator == "the pipeline was deleted"
        ended = await node
        assert isinstance(ended, Exit)
        assert "was deleted while node 0 was at work" in ended.reason
        view = reduce(
            evolve, await MemoryControlLog(cluster.kafka, "p").read_to_end(), PipelineView.empty("p")
        )
        await control.append([], list(view.latest))
        # Its topic is deleted, and made again.
        cluster.kafka.partition(f"p.{STEPS}").entries.clear()
        cluster.log.clear()
        again = cluster.coordinator()
        assert await again == "the pipeline was deleted", "one that comes too late says nothing, and ends"

        await control.append([BY_THE_CLOCK])
        cluster.coordinator()
        cluster.spawn(cluster._follow())
        node, engine = cluster.node(0, set())
        await cluster.until(lambda: len(_steps(cluster)) >= 3)
        assert _steps(cluster)[:3] == [1, 2, 3]
        assert engine().opened == [(0, False)]
        assert not node.done()

    play(scenario)
