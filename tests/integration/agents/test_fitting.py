"""A job that follows the size of the cluster, placed by users and looked after by its warden, on a real broker."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.apps.agent.configuring import configure
from kcontrol.apps.agent.fitting import FitWarden, Nodes
from kcontrol.apps.agent.placing import place
from kcontrol.apps.agent.resizing import fix_nodes
from kcontrol.core.cluster.entries import Accept, FitJob, Notify, Prepare
from kcontrol.core.cluster.fit_wards import Fitting
from kcontrol.core.cluster.fitting import fitting
from kcontrol.core.cluster.model import BOUNDS_LEVEL, LATEST_LEVEL, Bounds
from kcontrol.core.model import PipelinePhase
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.agents.told import told_in_cluster
from tests.support.patience import HANG_S


async def _three_hosts(log: KafkaClusterLog) -> None:
    """Of four slots each, whose ring is a -> b -> a, and then with c between."""
    levels = (1, LATEST_LEVEL)
    await log.append(Prepare("a", "a-1", slots=4, levels=levels))
    for name, by in (("b", "a"), ("c", "a"), ("c", "b")):
        await log.append(Prepare(name, f"{name}-1", slots=4, levels=levels))
        await log.append(Notify(name, f"{name}-1"))
        await log.append(Accept(name, f"{name}-1", by, f"{by}-1"))


def test_75_percent_of_the_cluster_are_placed_and_had_once_its_pipeline_can(
    settings: ClusterSettings,
) -> None:
    async def play() -> None:
        async with told_in_cluster(settings, shards=5) as cluster:
            own, log, view, told = cluster.settings, cluster.log, cluster.view, cluster.told
            await _three_hosts(log)
            await configure(view, ["scheduler=percentage"])
            made = await place(view, "p", Nodes(1, None, 75), "p.py")
            assert "from 1 to as many nodes as there is room for, 75 % of the cluster" in made.changes[-1]
            job = view.replica.jobs["p"]
            assert (view.replica.level, job.bounds, job.nodes) == (BOUNDS_LEVEL, Bounds(1), 1)
            assert fitting(view.replica) == {"p": 8}
            with pytest.raises(NotNowError, match="more than the 25 % that other jobs leave"):
                await place(view, "q", Nodes(1, None, 50), "q.py")
            again = await place(view, "p", Nodes(1, None, 75), "p.py")
            assert again.kind == "SubmitJob", "the same again changes nothing"
            assert view.replica.jobs["p"].revision == job.revision

            one = Fitting("p", job.revision, 8, 1, 1, view.replica.offset)
            assert await FitWarden(own, every_ms=0).seen([one]) == [], "it does not run yet"
            await told.begin()
            await told.step(6, 1)
            await told.status(PipelinePhase.RUNNING, "")
            async with asyncio.timeout(HANG_S):
                # On a slow machine what was said is too old by the time that it is looked at.
                while not (found := await (warden := FitWarden(own)).seen([one])):
                    await told.status(PipelinePhase.RUNNING, "")
            [(seen, nodes, anew)] = found
            assert (seen, anew) == (one, False)
            assert 1 < nodes < 8, "it has fewer partitions than there is room for nodes"
            assert await warden.seen([one]) == [], "it is not looked at again at once"
            await log.append(one.can_have(nodes, anew))
            value = await view.look()
            assert (value.jobs["p"].nodes, value.jobs["p"].kept) == (nodes, 1)
            await log.append(FitJob("p", job.revision, one.as_of, nodes + 1, anew=False))
            assert (await view.look()).jobs["p"].nodes == nodes, "what is old does not count"

            await place(view, "p", nodes, "p.py")
            assert Nodes(nodes, nodes).are_those_of(view.replica.jobs["p"])
            await place(view, "p", Nodes(1, None, 75), "p.py")
            await fix_nodes(view, "p", nodes - 1)
            fixed = view.replica.jobs["p"]
            assert (fixed.bounds, fixed.percentage, fixed.nodes) == (None, 0, nodes - 1)
            await place(view, "q", Nodes(1, None, 50), "q.py")
            again = await place(view, "p", nodes - 1, "p.py")
            assert again.changes[0] == "job p: submitted again, unchanged"
            assert view.replica.jobs["p"].revision == job.revision

    asyncio.run(play())
