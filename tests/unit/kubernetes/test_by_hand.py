"""What the operator makes is what docker/kubernetes has by hand, but for who owns it and for the digest of the code."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest

from kcontrol.core.kubernetes.nodes import CODE_ANNOTATION, node_objects
from kcontrol.core.kubernetes.resources import PIPELINE, REGION_OPERATOR
from kcontrol.core.kubernetes.shared import coordinator_objects, region_controllers
from tests.unit.docker.reading import KUBERNETES, ROOT, read, understood
from tests.unit.kubernetes.resources import resource

CHECKPOINTS = {
    "name": "DEPARTURES_CHECKPOINTS",
    "valueFrom": {"configMapKeyRef": {"name": "kcontrol-config", "key": "checkpoints"}},
}
SPEC = {
    "nodes": 3,
    "code": {"file": "departures.py", "text": (ROOT / "examples/departures.py").read_text()},
    "env": [CHECKPOINTS],
}


def pipeline(name: str = "departures", **spec: Any) -> dict[str, Any]:
    return resource(PIPELINE, name, {**SPEC, **spec})


def plain(manifest: dict[str, Any]) -> dict[str, Any]:
    """Without what a hand does not write."""
    found = deepcopy(manifest)
    assert found["metadata"].pop("ownerReferences")
    template = found["spec"].get("template", {}).get("metadata", {}) if "spec" in found else {}
    template.pop("annotations", None)
    return found


def test_nodes_are_those_made_by_hand() -> None:
    by_hand = [
        *(each for each in read(KUBERNETES / "config.yaml") if each["metadata"]["name"] == "departures"),
        *read(KUBERNETES / "nodes.yaml"),
    ]
    assert [plain(each) for each in node_objects(pipeline())] == by_hand


def test_coordinators_are_those_made_by_hand() -> None:
    assert [plain(each) for each in coordinator_objects([pipeline()])] == read(
        KUBERNETES / "coordinators.yaml"
    )


def test_all_are_valid() -> None:
    operator = resource(REGION_OPERATOR, "job", {"jobName": "job"})
    made = [
        *node_objects(pipeline()),
        *coordinator_objects([pipeline()]),
        region_controllers(operator, ["b", "a"]),
    ]
    for each in made:
        kubernetes_validate.validate(each, "1.37", strict=True)


def test_code_that_changes_replaces_the_pods_and_code_elsewhere_does_not_say() -> None:
    def digest(made: list[dict[str, Any]]) -> str | None:
        [nodes] = [each for each in made if each["kind"] == "StatefulSet"]
        return nodes["spec"]["template"]["metadata"].get("annotations", {}).get(CODE_ANNOTATION)

    other = {"file": "departures.py", "text": "other"}
    assert digest(node_objects(pipeline())) != digest(node_objects(pipeline(code=other)))
    elsewhere = node_objects(pipeline(code={"file": "departures.py", "configMap": "mine"}))
    assert digest(elsewhere) is None
    assert [each["kind"] for each in elsewhere] == ["Service", "StatefulSet", "PodDisruptionBudget"]


def test_coordinators_are_as_many_as_anybody_asks_for_and_as_the_oldest_says() -> None:
    young = resource(
        PIPELINE, "a", {**SPEC, "coordinators": 3, "image": "new"}, creationTimestamp="2026-02-01T00:00:00Z"
    )
    leaving = resource(PIPELINE, "b", {**SPEC, "coordinators": 9}, deletionTimestamp="2026-02-01T00:00:00Z")
    [deployment, _] = coordinator_objects([young, pipeline(), leaving])
    assert deployment["spec"]["replicas"] == 3
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "kcontrol"
    owners = [(each["name"], each.get("controller")) for each in deployment["metadata"]["ownerReferences"]]
    assert owners == [("departures", None), ("a", None)]
    assert coordinator_objects([pipeline(coordinators=0)]) == []


def test_who_looks_after_regions_is_given_those_of_its_job() -> None:
    operator = resource(REGION_OPERATOR, "job", {"jobName": "job"})
    made = region_controllers(operator, ["orders", "alarms"])
    [container] = made["spec"]["template"]["spec"]["containers"]
    taken = understood([*container["args"], "--bootstrap-servers=kafka:9092"])
    assert taken["regions"] == ("alarms", "orders")
    assert made["metadata"]["ownerReferences"][0]["kind"] == REGION_OPERATOR


@pytest.mark.parametrize("secret", ["kafka", "token", "storage"])
def test_secrets_are_named_and_nothing_more(secret: str) -> None:
    text = str(node_objects(pipeline(secrets={secret: "another-name"})))
    assert "another-name" in text
