"""A region whose pipelines run, and whose pods the API server says otherwise of: its controller hears of it. Nobody runs the
pods here; a real operator says what the API server has of them, on a real broker, to a real controller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcontrol.apps.regions.asking import region_reader
from kcontrol.core.kubernetes.resources import PIPELINE, REGION
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionState
from kcontrol.core.regions.records import RegionEventKind
from kcontrol.errors import NotFoundError, RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S, Chain
from tests.kubernetes.test_resources import CODE, bare
from tests.support.kubernetes.server import KubernetesServer
from tests.support.processes import KcontrolProcess, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

NAME, POD = "passed", "passed-0"


class Watched(Chain):
    """A pipeline that runs by hand, and a Pipeline of its name, of which only pods are made."""

    def __init__(
        self, kubernetes: KubernetesServer, settings: ClusterSettings, home: Path, new_topic: TopicFactory
    ) -> None:
        super().__init__(settings, home)
        self.kubernetes = kubernetes
        rows = new_topic("rows", partitions=1)
        self.submit(NAME, [rows], new_topic("out", partitions=1))
        self.produce(rows, 0, "a", "b")
        self.operator, self.controller = (
            self._kcontrol("operator", "--namespace", "kcontrol"),
            self._kcontrol("region-controller"),
        )

    def _kcontrol(self, *arguments: str) -> KcontrolProcess:
        return KcontrolProcess(
            *arguments,
            log=self.home / f"{arguments[0]}.log",
            cwd=self.home,
            env={"KUBECONFIG": str(self.kubernetes.operator_kubeconfig)},
        )

    def view(self) -> RegionLogView:
        """Empty, where it is not defined yet, or can't be asked now."""

        async def read() -> RegionLogView:
            async with region_reader(self.settings, NAME) as reader:
                try:
                    return await reader.look()
                except (NotFoundError, TopicError, RetriableError):
                    return RegionLogView()

        return asyncio.run(read())

    def phase(self, phase: str) -> None:
        """As a kubelet would say it."""
        until(lambda: self.kubernetes.get("pod", POD), f"there is pod {POD}", PATIENCE_S, self.hint)
        self.kubernetes.kubectl(
            *("-n", "kcontrol", "patch", "pod", POD, "--subresource=status", "--type=merge"),
            *("-p", f'{{"status": {{"phase": "{phase}"}}}}'),
        )

    def until_ill(self, *whys: str) -> None:
        """By one of these phases of the pod, and no more by anything before."""
        told = {f"pod {POD}: {why}" for why in whys}

        def ill() -> bool:
            newest = self.view().newest
            if newest is None or newest.happened.kind is not RegionEventKind.HEALTH_SEEN:
                return False
            return newest.state is RegionState.UNHEALTHY and newest.happened.why in told

        until(ill, f"the region is not well: {told}", PATIENCE_S, self.hint)

    def until_well(self) -> None:
        def well() -> bool:
            newest = self.view().newest
            return newest is not None and newest.is_healthy and newest.state is RegionState.PROCESSING

        until(well, "the region is at work", PATIENCE_S, self.hint)

    def hint(self) -> str:
        return f"{self.operator.text()[-2000:]}\n{self.controller.text()[-4000:]}"


@pytest.fixture
def watched(
    kubernetes: KubernetesServer, settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> Iterator[Watched]:
    made = Watched(kubernetes, settings, tmp_path, topic_factory)
    with ExitStack() as stack:
        stack.enter_context(made.running())
        for process in (made.controller, made.operator):
            stack.enter_context(process)
        made.operator.says("the operator is ready", 180)
        yield made


def test_a_region_hears_of_pods_that_are_added_deleted_or_change_their_phase(watched: Watched) -> None:
    kubernetes = watched.kubernetes
    kubernetes.apply(
        bare(PIPELINE, NAME, nodes=1, code=CODE, coordinators=0),
        bare(REGION, NAME, pipelines=[NAME], trigger="operatorDriven", jobName="by-hand"),
    )
    watched.phase("Running")
    watched.until_well()
    kubernetes.kubectl("-n", "kcontrol", "delete", "pod", POD, "--timeout=50s")
    watched.until_ill("Deleted", "no pod", "Pending")
    watched.phase("Running")
    watched.until_well()
    watched.phase("Unknown")
    watched.until_ill("Unknown")
    watched.operator.kill()
    watched.until_well()
    watched.operator.start()
    kubernetes.kubectl("-n", "kcontrol", "delete", REGION, NAME, "--timeout=50s")
    kubernetes.kubectl("-n", "kcontrol", "delete", PIPELINE, NAME)
