"""A warden on a real broker: it stops a pipeline whose input has ended, and says so only then."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.agent.warden import Warden
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.cluster.wards import Ward
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, NodeJoin, PipelinePhase, Status
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.addresses import ROWS_ID, GeneratorAddress
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

FOUNDED_MS = 7
ROWS = GeneratorAddress(partitions=1, rows_per_second=0, ramp_up_ms=0, rows=3, seed=0, start_ms=0)


def test_a_pipeline_whose_input_has_ended_is_stopped_and_then_done(settings: ClusterSettings) -> None:
    name = f"ends-{uuid4().hex[:6]}"
    ensure_topics(settings, name)
    # Its only input begins at its end, so that no step is needed to be there.
    item = replace(SPEC.inputs[0], topic=ROWS.text, topic_id=ROWS_ID, start_offsets=(3,))
    spec = replace(SPEC, pipeline=name, inputs=(item,))

    async def desired() -> Desired | None:
        async with pipeline_logs(settings, name) as logs:
            await logs.read_control()
            return logs.view.desired()

    async def play() -> None:
        warden, control = Warden(settings, every_ms=0), await KafkaControlLog.open(settings, name)
        older, newer = Ward(name, 20, "nodes"), Ward(name, 21, "nodes")
        try:
            assert await warden.done([newer], FOUNDED_MS) == [], "nobody has submitted it yet"
            join = NodeJoin(name, 0, "me", "host", 1, placement=AgentPlacement(FOUNDED_MS, 20))
            await control.append([spec, join])
            assert await warden.done([newer], FOUNDED_MS) == []
            assert await desired() is None, "what was submitted for an earlier revision says nothing"

            assert await warden.done([older], FOUNDED_MS) == []
            asked = await desired()
            assert asked is not None
            assert asked.mode is DesiredMode.STOPPED
            assert await warden.done([older], FOUNDED_MS) == [], "no coordinator has stopped it yet"
            await control.append(
                [Status(name, 1, PipelinePhase.STOPPED, 0, "", (asked.request_id,), 0, "", ())]
            )
            assert await warden.done([older], FOUNDED_MS) == [older]
            assert await warden.done([older, Ward("not-there", 1, "nodes")], FOUNDED_MS) == [older]
            assert await desired() == asked, "it is asked once"
        finally:
            await warden.close()
            await control.close()

    asyncio.run(asyncio.wait_for(play(), HANG_S))
