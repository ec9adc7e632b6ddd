"""A pipeline whose job has ended is told so, by whoever kills it or by an agent, on a real broker; and nodes that read it."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.agent.endings import EndTeller, kill
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.placing import place
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.standby import until_wanted
from kcontrol.backoff import Backoff
from kcontrol.core.cluster.end_wards import EndedJob, ended_job
from kcontrol.core.cluster.entries import KillJob, Prepare
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, NodeJoin
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

AT_ONCE = Backoff(first_ms=0, longest_ms=0)


async def desired(own: ClusterSettings) -> Desired | None:
    async with pipeline_logs(own, SPEC.pipeline) as logs:
        await logs.read_control()
        return logs.view.desired()


def stopped_by(ended: EndedJob) -> tuple[DesiredMode, AgentPlacement]:
    return DesiredMode.STOPPED, AgentPlacement(ended.founded_ms, ended.wish)


def test_what_is_killed_is_stopped_by_whoever_does_it_or_else_by_an_agent(settings: ClusterSettings) -> None:
    own = settings.model_copy(update={"prefix": f"ends-{uuid4().hex[:6]}"})
    job = SPEC.pipeline

    async def play() -> None:
        await asyncio.to_thread(ensure_cluster_topics, own)
        await asyncio.to_thread(ensure_topics, own, job)
        log, view, control = KafkaClusterLog(own), ClusterView(own), await KafkaControlLog.open(own, job)
        teller, asleep = EndTeller(own, lambda: True, AT_ONCE), EndTeller(own, lambda: False, AT_ONCE)

        async def join(uuid: str) -> AgentPlacement:
            value = await view.look()
            placement = AgentPlacement(value.founded_ms, value.places()[job, "nodes", 0].generation)
            await control.append([NodeJoin(job, 0, uuid, "host", 1, placement=placement)])
            return placement

        try:
            await log.append(Prepare("a", "a-1", slots=4))
            await place(view, job, 1, "p.py")
            await control.append([SPEC])
            first = await join("first")

            await kill(view, job)
            ended = ended_job(view.replica, view.replica.jobs[job])
            said = await desired(own)
            assert said is not None
            assert (said.mode, said.wish) == stopped_by(ended)
            await teller.tell([ended])
            assert await desired(own) == said, "it is said once"
            assert not await until_wanted(own, job, lambda: None, placement=first), (
                "what was placed before ends"
            )

            await place(view, job, 1, "p.py")
            second = await join("second")
            assert first < second
            assert await until_wanted(own, job, lambda: None, placement=second), (
                "and what is placed later runs"
            )

            # Killed by somebody who may not write the pipeline's log.
            await view.ask(lambda value, request: KillJob(job, request, value.offset))
            again = ended_job(view.replica, view.replica.jobs[job])
            await asleep.tell([again])
            now = await desired(own)
            assert now is None or now.mode is DesiredMode.RUNNING, "what was known of the cluster is old"
            await teller.tell([EndedJob("not-there", 7, 1)])
            await teller.tell([again])
            now = await desired(own)
            assert now is not None
            assert (now.mode, now.wish) == stopped_by(again)
        finally:
            await asyncio.gather(log.close(), view.close(), control.close())

    asyncio.run(asyncio.wait_for(play(), HANG_S))
