"""What is submitted is placed where there are agents, and once."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.placing import place_if_there_are_agents
from kcontrol.core.cluster.entries import Prepare
from kcontrol.core.cluster.model import Replica
from kcontrol.errors import NotFoundError
from kcontrol.settings.cluster import ClusterSettings


def test_what_is_submitted_runs_on_the_agents_that_there_are(settings: ClusterSettings) -> None:
    own = settings.model_copy(update={"prefix": f"agents-{uuid4().hex[:6]}"})

    async def place(wanted: bool | None, nodes: int = 2) -> tuple[str, ...] | None:
        made = await place_if_there_are_agents(own, "flights", nodes, "flights.py", wanted)
        return None if made is None else made.changes

    async def value() -> Replica:
        view = ClusterView(own)
        try:
            return await view.look()
        finally:
            await view.close()

    async def play() -> None:
        for _ in range(2):
            # Without topics, and with them and nobody there.
            assert await place(None) is None
            with pytest.raises(NotFoundError, match="has no agents"):
                await place(True)
            await asyncio.to_thread(ensure_cluster_topics, own)
        log = KafkaClusterLog(own)
        await log.append(Prepare("a", "a-1", slots=4))
        await log.close()

        assert await place(False) is None
        first = await place(None)
        assert first is not None
        assert "job flights: submitted" in first
        places = (await value()).places()
        assert len(places) == 2
        assert await place(None) == ("job flights: submitted again, unchanged",)
        assert (await value()).places() == places
        assert await place(None, nodes=3) is not None
        assert len((await value()).places()) == 3

    asyncio.run(play())
