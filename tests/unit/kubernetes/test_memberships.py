"""A Pipeline's status names the ConsistentRegion that it is a member of, from one pass of the operator on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from kcontrol.apps.kubernetes import operator
from kcontrol.apps.kubernetes.operator import KubernetesOperator, OperatorTimes
from kcontrol.core.kubernetes.resources import PIPELINE, REGION
from kcontrol.core.model import PipelinePhase, Status
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionSettings
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.kubernetes.resources import resource

CODE = {"file": "a.py", "text": "x"}


class Objects:
    """The API server. statuses: by kind and name, what was written last."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self.found, self.statuses = found, dict[tuple[str, str], dict[str, Any]]()

    def __call__(self, timeout_s: float) -> Objects:
        return self

    async def __aenter__(self) -> Objects:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    async def get(self, kind: str, namespace: str, name: str) -> None:
        return None

    async def list(
        self, kind: str, namespace: str | None, labels: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        return [each for each in self.found if each["kind"] == kind]

    async def apply(self, manifest: dict[str, Any]) -> None:
        """What is made is of no interest here."""

    async def put_status(self, of: dict[str, Any], status: dict[str, Any]) -> None:
        self.statuses[of["kind"], of["metadata"]["name"]] = status

    async def set_finalizers(self, of: dict[str, Any], finalizers: Collection[str]) -> None:
        """It has none."""


class Kafka:
    """The side of Kafka, where region `twice` is refused."""

    def __init__(self, _: object) -> None:
        """It knows nothing."""

    async def pipeline(self, name: str) -> tuple[Status, bool]:
        return Status(name, 1, PipelinePhase.RUNNING, 7, "", (), 0, "", ()), True

    async def define(self, settings: RegionSettings, by: str) -> RegionLogView:
        if settings.region == "twice":
            raise ConfigurationError("a pipeline is in one region at most")
        return RegionLogView()

    async def say_pods(self, _: object) -> None:
        """Nobody hears it."""

    async def newest_rollback(self, region: str) -> None:
        return None

    async def forget(self, *_: object) -> None:
        """There is nothing to forget."""

    async def close(self) -> None:
        """Nothing is open."""


async def _no_news(_: object, __: object, stop: asyncio.Event, *___: object) -> None:
    await stop.wait()


def one_pass(monkeypatch: pytest.MonkeyPatch, *found: dict[str, Any]) -> Callable[[str], Any]:
    """What the statuses of Pipelines say of their regions after it."""
    objects = Objects(*found)
    for name, fake in (("KubernetesObjects", objects), ("KafkaSide", Kafka), ("watch", _no_news)):
        monkeypatch.setattr(operator, name, fake)
    nobody = ClusterSettings(bootstrap_servers="127.0.0.1:1")
    runs = KubernetesOperator(nobody, (), OperatorTimes(look_s=60.0, step_s=HANG_S))
    asyncio.run(runs.run(runs.stop))
    return lambda name: objects.statuses[PIPELINE, name]["regions"]


def test_a_pipeline_names_its_region_with_the_number_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines = [resource(PIPELINE, name, {"nodes": 1, "code": CODE}) for name in ("enrich", "totals", "own")]
    orders = resource(REGION, "orders", {"pipelines": ["enrich", "totals"], "regionIndex": 3})
    twice = resource(REGION, "twice", {"pipelines": ["totals", "own"]})
    gone = resource(REGION, "gone", {"pipelines": ["own"]}, deletionTimestamp="2026-02-01T00:00:00Z")
    regions = one_pass(monkeypatch, *pipelines, orders, twice, gone)
    assert regions("enrich") == regions("totals") == [{"name": "orders", "regionIndex": 3}]
    assert regions("own") == [], "one is refused, one is being deleted"
