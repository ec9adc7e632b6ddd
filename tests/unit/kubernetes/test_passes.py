"""A pass of the operator over several regions: what it reads, and of whose pods it tells which region."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kcontrol.apps.kubernetes import operator
from kcontrol.core.kubernetes.resources import API_VERSION, PIPELINE, REGION, REGION_OPERATOR, Manifest
from kcontrol.core.kubernetes.shared import COORDINATORS
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionPods
from kcontrol.errors import AccessError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.kubernetes.resources import resource

NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")


@dataclass
class ApiServer:
    """What the operator needs of one."""

    has: dict[str, list[Manifest]]
    listed: list[str] = field(default_factory=list)
    refuses: Mapping[str, Exception] = field(default_factory=dict)
    """By name of what it makes no object of."""
    applied: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    statuses: dict[tuple[str, str], Manifest] = field(default_factory=dict)

    def __call__(self, _: float) -> ApiServer:
        return self

    async def __aenter__(self) -> ApiServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    async def list(
        self, kind: str, namespace: str | None, labels: Mapping[str, str] | None = None
    ) -> list[Manifest]:
        self.listed.append(kind)
        return self.has.get(kind, [])

    async def get(self, kind: str, namespace: str, name: str) -> None:
        return None

    async def apply(self, manifest: Manifest) -> None:
        """Nothing else is made of it."""
        if manifest["metadata"]["name"] in self.refuses:
            raise self.refuses[manifest["metadata"]["name"]]
        self.applied[manifest["kind"], manifest["metadata"]["name"]] = manifest

    async def put_status(self, found: Manifest, status: Manifest) -> None:
        found["status"] = self.statuses[found["kind"], found["metadata"]["name"]] = status

    async def set_finalizers(self, found: Manifest, finalizers: tuple[str, ...]) -> None:
        found["metadata"]["finalizers"] = list(finalizers)


@dataclass
class Kafka:
    """The KafkaSide of a cluster where no region has a controller yet."""

    defined: dict[str, RegionSettings] = field(default_factory=dict)
    pods: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __call__(self, _: ClusterSettings) -> Kafka:
        return self

    async def define(self, settings: RegionSettings, by: str) -> RegionLogView:
        self.defined[settings.region] = settings
        return RegionLogView()

    async def say_pods(self, pods: RegionPods) -> None:
        self.pods[pods.region] = pods.away

    async def newest_rollback(self, region: str) -> None:
        return None

    async def pipeline(self, name: str) -> tuple[None, bool]:
        return None, False

    async def forget(self, pipelines: object, regions: object) -> None:
        """Nothing is known."""

    async def close(self) -> None:
        """Nothing is open."""


def owned(kind: str, name: str, owner: tuple[str, str, str], phase: str = "") -> Manifest:
    api, above, above_name = owner
    reference = {"apiVersion": api, "kind": above, "name": above_name, "uid": f"uid-of-{above_name}"}
    where = {"namespace": "kcontrol", "name": name, "uid": f"uid-of-{name}", "ownerReferences": [reference]}
    return {"kind": kind, "metadata": where, "status": {"phase": phase}}


def server_with(regions: Mapping[str, list[str]], pods: Mapping[str, str]) -> ApiServer:
    """regions: the pipelines of each. pods: the phase of each pipeline's only one."""
    code = {"nodes": 1, "code": {"file": "a.py", "text": "x"}}
    return ApiServer(
        {
            REGION: [resource(REGION, name, {"pipelines": of}) for name, of in regions.items()],
            PIPELINE: [resource(PIPELINE, name, code) for name in pods],
            "StatefulSet": [owned("StatefulSet", name, (API_VERSION, PIPELINE, name)) for name in pods],
            "Pod": [
                owned("Pod", f"{name}-0", ("apps/v1", "StatefulSet", name), phase)
                for name, phase in pods.items()
            ],
        }
    )


def one_pass(server: ApiServer, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    async def watch(_: object, __: Callable[[], None], stop: asyncio.Event, *___: Any) -> None:
        await stop.wait()

    monkeypatch.setattr(operator, "KubernetesObjects", server)
    monkeypatch.setattr(operator, "KafkaSide", kafka)
    monkeypatch.setattr(operator, "watch", watch)
    working = operator.KubernetesOperator(NOBODY, times=operator.OperatorTimes(step_s=HANG_S))
    asyncio.run(asyncio.wait_for(working.run(working.stop), HANG_S))


def test_each_region_is_told_of_the_pods_of_its_own_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    """`loose` is in no region: its pod makes none unhealthy. What `totals` lacks is the business of its region alone."""
    pods = {
        "loose": "Failed",
        "enrich": "Running",
        "totals": "Pending",
        "alerts": "Running",
        "bills": "Failed",
    }
    regions = {"orders": ["enrich", "totals"], "alarms": ["alerts"], "money": ["bills"]}
    server, kafka = server_with(regions, pods), Kafka()
    one_pass(server, kafka, monkeypatch)
    away = {"orders": ("totals-0: Pending",), "alarms": (), "money": ("bills-0: Failed",)}
    assert kafka.pods == away
    assert {name: settings.pipelines for name, settings in kafka.defined.items()} == {
        name: tuple(of) for name, of in regions.items()
    }
    assert {
        name: tuple(status["podsNotRunning"])
        for (kind, name), status in server.statuses.items()
        if kind == REGION
    } == away


def test_a_pod_that_only_has_the_name_of_a_regions_pod_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, kafka = server_with({"orders": ["enrich"]}, {"enrich": "Running"}), Kafka()
    [pod] = server.has["Pod"]
    pod["metadata"]["ownerReferences"] = []
    one_pass(server, kafka, monkeypatch)
    assert kafka.pods == {"orders": ("enrich-0: no pod",)}


def test_who_looks_after_a_jobs_regions_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_with({"orders": ["enrich"]}, {"enrich": "Running"})
    one_pass(server, Kafka(), monkeypatch)
    assert server.listed[0] == REGION_OPERATOR
    assert set(server.listed) >= {REGION, PIPELINE, "StatefulSet", "Pod"}


@pytest.mark.parametrize("why", [RetriableError("too many requests"), AccessError("may not patch it")])
def test_coordinators_that_can_not_be_made_end_no_pass(
    monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    """It is tried again: whoever looks after all the rest goes on."""
    server = server_with({"orders": ["enrich"]}, {"enrich": "Running"})
    server.refuses = {COORDINATORS: why}
    one_pass(server, Kafka(), monkeypatch)
    assert (PIPELINE, "enrich") in server.statuses


@pytest.mark.parametrize("regions", [{"orders": ["enrich"]}, {}])
def test_who_looks_after_a_job_and_was_made_by_somebody_knows_how_many_regions_there_are(
    monkeypatch: pytest.MonkeyPatch, regions: dict[str, list[str]]
) -> None:
    """Also once the last of them was deleted: one that the operator has made goes with it."""
    server = server_with(regions, {"enrich": "Running"})
    server.has[REGION_OPERATOR] = [resource(REGION_OPERATOR, "job", {"jobName": "job", "numRegions": 7})]
    for each in server.has[REGION]:
        each["spec"]["jobName"] = "job"
    one_pass(server, Kafka(), monkeypatch)
    kept = server.applied[REGION_OPERATOR, "job"]
    assert kept["spec"] == {"jobName": "job", "numRegions": len(regions)}
    assert "ownerReferences" not in kept["metadata"]
