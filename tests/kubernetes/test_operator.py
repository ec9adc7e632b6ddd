"""The operator as a process that is killed, on a real API server and a real broker. Nobody runs the pods here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcontrol.core.kubernetes.resources import PIPELINE, REGION_OPERATOR
from kcontrol.settings.cluster import ClusterSettings
from tests.kubernetes.test_resources import CODE, bare
from tests.support.kubernetes.server import KubernetesServer
from tests.support.processes import KcontrolProcess, until

pytestmark = pytest.mark.kubernetes

MADE = {
    "configmap": "taking",
    "service": "taking",
    "statefulset": "taking",
    "poddisruptionbudget": "taking",
    "deployment": "kcontrol-coordinator",
}


@pytest.fixture
def operator(
    kubernetes: KubernetesServer, settings: ClusterSettings, tmp_path: Path
) -> Iterator[KcontrolProcess]:
    kafka = ("--bootstrap-servers", settings.bootstrap_servers)
    process = KcontrolProcess(
        *("operator", "--namespace", "kcontrol", "--resync", "5", *kafka),
        log=tmp_path / "operator.log",
        cwd=tmp_path,
        env={"KUBECONFIG": str(kubernetes.operator_kubeconfig)},
    )
    with process:
        process.says("the operator is ready", 180)
        yield process


def condition(found: dict[str, Any] | None, kind: str) -> dict[str, Any]:
    status = (found or {}).get("status") or {}
    return next((each for each in status.get("conditions", ()) if each["type"] == kind), {})


def test_a_pipeline_is_made_kept_and_taken_away(
    kubernetes: KubernetesServer, operator: KcontrolProcess
) -> None:
    kubernetes.apply(bare(PIPELINE, "taking", nodes=2, code=CODE))
    for kind, name in MADE.items():
        until(lambda: kubernetes.get(kind, name), f"{kind} {name}", 60, operator.text)  # noqa: B023
    until(
        lambda: condition(kubernetes.get(PIPELINE, "taking"), "Ready").get("reason") == "NotSubmitted",
        "its status says that nobody has submitted it",
        60,
        operator.text,
    )
    operator.kill()
    kubernetes.kubectl("-n", "kcontrol", "delete", "service", "taking")
    kubernetes.apply(bare(PIPELINE, "taking", nodes=3, code=CODE))
    operator.start()

    def grown() -> bool:
        found = kubernetes.get("statefulset", "taking")
        return (
            found is not None
            and found["spec"]["replicas"] == 3
            and kubernetes.get("service", "taking") is not None
        )

    until(grown, "what happened without an operator is made good", 60, operator.text)
    kubernetes.kubectl("-n", "kcontrol", "delete", PIPELINE, "taking")
    for kind, name in MADE.items():
        until(lambda: kubernetes.get(kind, name) is None, f"{kind} {name} is gone", 90, operator.text)  # noqa: B023


def test_what_somebody_else_has_made_stays_theirs(
    kubernetes: KubernetesServer, operator: KcontrolProcess
) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "theirs", "namespace": "kcontrol"},
        "spec": {"ports": [{"port": 1}]},
    }
    kubernetes.apply(theirs)
    kubernetes.apply(bare(PIPELINE, "theirs", nodes=1, code=CODE))
    until(
        lambda: (
            "nobody's resource"
            in condition(kubernetes.get(PIPELINE, "theirs"), "Accepted").get("message", "")
        ),
        "it says whose it is",
        60,
        operator.text,
    )
    assert kubernetes.get("statefulset", "theirs") is None
    kubernetes.kubectl("-n", "kcontrol", "delete", PIPELINE, "theirs")
    kubernetes.kubectl("-n", "kcontrol", "delete", "service", "theirs")


def test_a_region_of_pipelines_that_are_not_there_waits_and_goes(
    kubernetes: KubernetesServer, operator: KcontrolProcess
) -> None:
    kubernetes.apply(bare("ConsistentRegion", "waiting", pipelines=["nowhere"], jobName="idle"))
    until(
        lambda: (
            condition(kubernetes.get("ConsistentRegion", "waiting"), "Defined").get("reason")
            == "WaitsForPipelines"
        ),
        "it waits for its pipelines",
        60,
        operator.text,
    )

    def looked_after() -> bool:
        found, made = kubernetes.get(REGION_OPERATOR, "idle"), kubernetes.get("deployment", "idle-regions")
        return made is not None and found is not None and found["spec"]["numRegions"] == 1

    until(looked_after, "somebody looks after it", 60, operator.text)
    until(
        lambda: (kubernetes.get(REGION_OPERATOR, "idle") or {}).get("status", {}).get("hasStarted") is False,
        "its status says that nobody is in charge yet",
        60,
        operator.text,
    )
    kubernetes.kubectl("-n", "kcontrol", "delete", "ConsistentRegion", "waiting", "--timeout=50s")
    for kind, name in ((REGION_OPERATOR, "idle"), ("deployment", "idle-regions")):
        until(lambda: kubernetes.get(kind, name) is None, f"{kind} {name} is gone", 90, operator.text)  # noqa: B023
