"""What the API server itself takes and refuses, before any operator has seen it."""

from __future__ import annotations

from typing import Any

import pytest

from kcontrol.core.kubernetes.resources import API_VERSION, PIPELINE, REGION, REGION_OPERATOR
from tests.support.kubernetes.server import KubernetesServer
from tests.unit.kubernetes.resources import resource

pytestmark = pytest.mark.kubernetes

CODE = {"file": "a.py", "text": "x"}


def bare(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "kcontrol"}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


REFUSED = {
    "no nodes": (bare(PIPELINE, "a", nodes=0, code=CODE), "spec.nodes"),
    "no code": (bare(PIPELINE, "a", nodes=1, code={"file": "a.py"}), "either text or configMap"),
    "code twice": (bare(PIPELINE, "a", nodes=1, code={**CODE, "configMap": "b"}), "either text or configMap"),
    "a path": (bare(PIPELINE, "a", nodes=1, code={"file": "../a.py", "text": "x"}), "spec.code.file"),
    "a long name": (bare(PIPELINE, "a" * 53, nodes=1, code=CODE), "at most 52"),
    "an own name": (bare(PIPELINE, "kcontrol-x", nodes=1, code=CODE), "kcontrol's own"),
    "an own variable": (
        bare(PIPELINE, "a", nodes=1, code=CODE, env=[{"name": "NODE", "value": "1"}]),
        "set by the operator",
    ),
    "an unknown field": (bare(PIPELINE, "a", nodes=1, code=CODE, replicas=2), "replicas"),
    "no pipelines": (bare(REGION, "r", pipelines=[]), "spec.pipelines"),
    "an unknown trigger": (bare(REGION, "r", pipelines=["a"], trigger="x"), "spec.trigger"),
    "triggers of a periodic one": (
        bare(REGION, "r", pipelines=["a"], operatorsToTrigger=["a"]),
        "operatorDriven",
    ),
    "a trigger that is no member": (
        bare(REGION, "r", pipelines=["a"], trigger="operatorDriven", operatorsToTrigger=["b"]),
        "neither in pipelines nor in participants",
    ),
    "a participant that is a pipeline": (
        bare(REGION, "r", pipelines=["a"], participants=["a"]),
        "participants names a pipeline",
    ),
    "a participant twice": (bare(REGION, "r", pipelines=["a"], participants=["b", "b"]), "spec.participants"),
    "a participant without a name": (
        bare(REGION, "r", pipelines=["a"], participants=["B b"]),
        "spec.participants",
    ),
    "a rollback as of whenever": (
        bare(REGION, "r", pipelines=["a"], rollbackRequest={"id": "1", "toCut": 1}),
        "spec.rollbackRequest.asOf",
    ),
    "a rollback to nowhere": (
        bare(REGION, "r", pipelines=["a"], rollbackRequest={"id": "1", "toCut": 0, "asOf": 1}),
        "spec.rollbackRequest.toCut",
    ),
    "no attempts": (
        bare(REGION, "r", pipelines=["a"], maxConsecutiveResetAttempts=0),
        "maxConsecutiveResetAttempts",
    ),
    "period 0": (bare(REGION, "r", pipelines=["a"], period=0), "spec.period"),
    "another job's name": (bare(REGION_OPERATOR, "one", jobName="another"), "the name of its job"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_with_a_sentence(kubernetes: KubernetesServer, what: str) -> None:
    wrong, says = REFUSED[what]
    assert says in kubernetes.apply(wrong, refused=True)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (PIPELINE, {"nodes": 2, "code": CODE}),
        (REGION, {"pipelines": ["a"], "drainRequest": {"id": "1"}}),
        (
            REGION,
            {
                "pipelines": ["a"],
                "participants": ["b"],
                "trigger": "operatorDriven",
                "operatorsToTrigger": ["a", "b"],
            },
        ),
        (
            REGION,
            {
                "pipelines": ["a"],
                "participants": ["b"],
                "rollbackRequest": {"id": "1", "toCut": 17, "asOf": 118, "leaveBehind": ["deliveries"]},
            },
        ),
        (REGION_OPERATOR, {"jobName": "taken"}),
    ],
)
def test_what_is_left_out_is_filled_in_as_unit_tests_have_it(
    kubernetes: KubernetesServer, kind: str, spec: dict[str, Any]
) -> None:
    kubernetes.apply(bare(kind, "taken", **spec))
    found = kubernetes.get(kind, "taken")
    assert found is not None
    assert found["spec"] == resource(kind, "taken", spec)["spec"]
    kubernetes.kubectl("-n", "kcontrol", "delete", kind, "taken")


def test_what_never_changes_is_not_changed(kubernetes: KubernetesServer) -> None:
    kubernetes.apply(bare(PIPELINE, "still", nodes=1, code=CODE), bare(REGION, "still", pipelines=["a"]))
    grown = bare(PIPELINE, "still", nodes=1, code=CODE, storage={"size": "1Gi"})
    assert "storage can't be changed" in kubernetes.apply(grown, refused=True)
    assert "regionIndex never changes" in kubernetes.apply(
        bare(REGION, "still", pipelines=["a"], regionIndex=1), refused=True
    )
    kubernetes.kubectl("-n", "kcontrol", "delete", f"{PIPELINE},{REGION}", "still")


def test_the_manifests_of_the_operator_are_taken(kubernetes: KubernetesServer) -> None:
    kubernetes.kubectl("apply", "--server-side", "--dry-run=server", "-k", "docker/kubernetes/operator")
    kubernetes.kubectl("apply", "--server-side", "--dry-run=server", "-k", "docker/kubernetes")
