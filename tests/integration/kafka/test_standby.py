"""A node of a stopped pipeline waits for nothing but its user's wish."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.process_name import new_join_id
from kcontrol.apps.standby import until_wanted
from kcontrol.core.model import Desired, DesiredMode, NodeJoin
from kcontrol.errors import ReplacedError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

PATIENCE_S = HANG_S


def own(settings: ClusterSettings) -> ClusterSettings:
    """A cluster of one's own on the same broker."""
    return settings.model_copy(update={"prefix": f"standby-{secrets.token_hex(3)}"})


async def want(log: KafkaControlLog, pipeline: str, mode: DesiredMode) -> None:
    await log.append([Desired(pipeline, mode, secrets.token_hex(4))])


def test_it_begins_at_once_where_nobody_has_asked_for_anything(settings: ClusterSettings) -> None:
    waited: list[str] = []

    async def scenario() -> None:
        cluster = own(settings)
        await until_wanted(cluster, "p", lambda: waited.append("without a control topic"))
        await asyncio.to_thread(ensure_topics, cluster, "p", 2)
        await until_wanted(cluster, "p", lambda: waited.append("without a wish"))

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
    assert waited == []


def test_it_waits_while_the_pipeline_is_stopped_and_goes_on_when_it_is_to_run(
    settings: ClusterSettings,
) -> None:
    async def scenario() -> None:
        cluster = own(settings)
        await asyncio.to_thread(ensure_topics, cluster, "p", 2)
        log = await KafkaControlLog.open(cluster, "p")
        await want(log, "p", DesiredMode.RUNNING)
        await want(log, "p", DesiredMode.STOPPED)
        stands_by = asyncio.Event()
        waiting = asyncio.create_task(until_wanted(cluster, "p", stands_by.set))
        await stands_by.wait()
        await want(log, "other", DesiredMode.RUNNING)
        await want(log, "p", DesiredMode.STOPPED)
        assert not waiting.done()
        await want(log, "p", DesiredMode.RUNNING)
        await waiting
        await log.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_it_waits_on_when_the_pipeline_is_deleted_and_goes_on_when_that_is_submitted_again(
    settings: ClusterSettings,
) -> None:
    async def scenario() -> None:
        cluster = own(settings)
        await asyncio.to_thread(ensure_topics, cluster, "p", 2)
        log = await KafkaControlLog.open(cluster, "p")
        await log.append([SPEC])
        await want(log, "p", DesiredMode.STOPPED)
        stands_by = asyncio.Event()
        waiting = asyncio.create_task(until_wanted(cluster, "p", stands_by.set))
        await stands_by.wait()
        await log.append([], ["p/spec", "p/desired"])
        await log.append([replace(SPEC, pipeline="other")])
        assert not waiting.done()
        await until_wanted(cluster, "p", lambda: waited.append("for a pipeline that was deleted"))
        assert not waiting.done()
        await log.append([SPEC])
        await waiting
        await log.close()

    waited: list[str] = []
    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
    assert waited == []


REPLACED = {
    "mine": False,
    "another": False,
    "another, mine": False,
    "mine, another": True,
    "mine, another, mine": False,
}


@pytest.mark.parametrize("waits", [False, True], ids=["wanted at once", "after a stop"])
@pytest.mark.parametrize("joined", REPLACED)
def test_who_was_the_node_before_and_is_not_any_more_does_not_begin_again(
    settings: ClusterSettings, joined: str, waits: bool
) -> None:
    """It was stopped, and slept while another process was started as the node."""

    async def scenario() -> None:
        cluster = own(settings)
        await asyncio.to_thread(ensure_topics, cluster, "p", 2)
        log = await KafkaControlLog.open(cluster, "p")
        await want(log, "p", DesiredMode.STOPPED if waits else DesiredMode.RUNNING)
        for whose in joined.split(", "):
            uuid = new_join_id() if whose == "mine" else secrets.token_hex(16)
            await log.append([NodeJoin("p", 1, uuid, "host", 1)])
        # Of another node, and of another pipeline.
        await log.append([NodeJoin("p", 0, "x-1", "host", 1), NodeJoin("other", 1, "x-1", "host", 1)])
        stands_by = asyncio.Event()
        waiting = asyncio.create_task(until_wanted(cluster, "p", stands_by.set, node=1))
        if waits:
            await stands_by.wait()
            await want(log, "p", DesiredMode.RUNNING)
        if REPLACED[joined]:
            with pytest.raises(ReplacedError, match="node 1 of pipeline 'p'"):
                await waiting
        else:
            assert await waiting
        await log.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
