"""Another policy and drains, asked for by operators, on a real broker."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.apps.agent.asking import agents_asked
from kcontrol.apps.agent.configuring import configure, drain
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.core.cluster.entries import Configure, DrainAgent, Prepare
from kcontrol.core.cluster.model import AS_OF_LEVEL, LATEST_LEVEL, ClusterPolicy, Scheduler
from kcontrol.errors import ConfigurationError, NotFoundError
from kcontrol.requests.agents import HostDrainAsked, JobKillAsked
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S


def test_operators_are_heard_at_whatever_level_and_once_from_the_fifth_on(settings: ClusterSettings) -> None:
    own = settings.model_copy(update={"prefix": f"configured-{uuid4().hex[:6]}"})

    async def play() -> None:
        await asyncio.to_thread(ensure_cluster_topics, own)
        log, view = KafkaClusterLog(own), ClusterView(own)
        try:
            await log.append(Prepare("a", "a-1", slots=4))
            made = await configure(view, ("scheduler=greedy", "beat_ms=1000"))
            assert made.kind == Configure.__name__
            assert made.changes == ("scheduler balanced -> greedy", "beat_ms 2000 -> 1000")
            assert (await drain(view, "a", on=True)).changes[0] == "agent a: drains"
            assert view.replica.level == 1, "its agent knows no other"
            with pytest.raises(ConfigurationError, match="in force already"):
                await configure(view, ("scheduler=greedy",))

            await log.append(Prepare("a", "a-2", "a-1", slots=4, levels=(1, LATEST_LEVEL)))
            made = await drain(view, "a", on=False)
            assert made.kind == DrainAgent.__name__
            assert view.replica.level == AS_OF_LEVEL
            await configure(view, ("scheduler=balanced", "beat_ms=2000"))
            assert view.replica.policy == ClusterPolicy()
            await log.append(Configure(ClusterPolicy(scheduler=Scheduler.GREEDY)))
            assert (await view.look()).policy == ClusterPolicy(), "that was said long ago"
            with pytest.raises(NotFoundError, match="no such agent"):
                await drain(view, "z", on=True)
            made = await agents_asked(own)(HostDrainAsked("a", on=True))
            assert (made.kind, made.rejection) == (DrainAgent.__name__, "")
            with pytest.raises(NotFoundError, match="no such job is active"):
                await agents_asked(own)(JobKillAsked("flights"))
        finally:
            await asyncio.gather(log.close(), view.close())

    asyncio.run(asyncio.wait_for(play(), HANG_S))
