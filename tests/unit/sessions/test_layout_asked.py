"""When a node begins to make ready for another layout that somebody asks for."""

from __future__ import annotations

import asyncio

from kcontrol.adapters.clock import SystemClock
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import LayoutRequest, Logged
from kcontrol.sessions.node import NodePorts, NodeSession
from tests.fakes.memory_kafka import MemoryControlLog, MemoryStepsLog
from tests.unit.sessions.engines import ScriptedEngine
from tests.unit.sessions.test_checkpoints_in_memory import Cluster, NoInput, play

ASKED = LayoutRequest("p", "l1", 1, 3, 60_000)


def test_it_is_not_while_the_node_has_yet_to_read_its_logs() -> None:
    """A node that goes on by a new layout hears of the request that led to it, at a moment in which no steps are made."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.begin()
        asked: list[str] = []
        more = asyncio.Event()

        def engine(*_: object) -> ScriptedEngine:
            asked.append("the engine is made")
            return ScriptedEngine()

        def layout_asked() -> None:
            asked.append("asked")
            more.set()

        control, log = MemoryControlLog(cluster.kafka, "p"), MemoryStepsLog(cluster.kafka, "p")
        ports = NodePorts(SystemClock(), control, log, engine, lambda *_: NoInput())
        heard = evolve(PipelineView.empty("p"), Logged(0, 0, ASKED))
        cluster.spawn(NodeSession("p", 0, ports, layout_asked=layout_asked, heard=heard).run())
        await more.wait()
        assert asked == ["the engine is made", "asked"], "the request that was heard of"
        more.clear()
        await MemoryControlLog(cluster.kafka, "p").append([ASKED])
        await more.wait()
        assert asked[1:] == ["asked", "asked"], "a new one"

    play(scenario)
