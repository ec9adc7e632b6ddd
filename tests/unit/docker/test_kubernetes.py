"""docker/kubernetes is valid Kubernetes, its objects find each other, and its commands are kcontrol's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any

import kubernetes_validate
import pytest

from examples import departures
from kcontrol.adapters.http.access import is_loopback
from tests.unit.docker.reading import DOCKER, KUBERNETES, ROOT, read, serves, standing, understood

VERSION = "1.37"
POD_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"
[KUSTOMIZATION] = read(KUBERNETES / "kustomization.yaml")
SECRETS = read(KUBERNETES / "secrets.example.yaml")
OBJECTS: list[dict[str, Any]] = [
    each for name in KUSTOMIZATION["resources"] for each in read(KUBERNETES / name)
]
WORKLOADS = [each for each in OBJECTS if each["kind"] in ("Deployment", "StatefulSet")]
named = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload["metadata"]["name"])


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in (*OBJECTS, *SECRETS) if each["kind"] == kind}


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


def container_of(workload: dict[str, Any]) -> dict[str, Any]:
    [container] = pod_of(workload)["containers"]
    return dict(container)


def mounted(workload: dict[str, Any]) -> dict[PurePosixPath, dict[str, Any]]:
    """By path in the container: the volume that is there."""
    volumes = {each["name"]: each for each in pod_of(workload)["volumes"]}
    volumes |= {
        each["metadata"]["name"]: {"claim": each} for each in workload["spec"].get("volumeClaimTemplates", ())
    }
    return {
        PurePosixPath(each["mountPath"]): volumes[each["name"]]
        for each in container_of(workload)["volumeMounts"]
    }


def selected(selector: dict[str, str]) -> list[str]:
    """Whose pods have these labels."""
    pods = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in WORKLOADS}
    return [name for name, labels in pods.items() if selector.items() <= labels.items()]


def options(workload: dict[str, Any], directory: Path, index: int = 0) -> dict[str, Any]:
    """As kcontrol's own parser and settings take the command of that pod, with the ConfigMap's
    kcontrol.toml."""
    (directory / "kcontrol.toml").write_text(of_kind("ConfigMap")["kcontrol-config"]["data"]["kcontrol.toml"])
    with standing(directory, {"KAFKA_PASSWORD": "a-password"}):
        return understood(
            [argument.replace("$(NODE)", str(index)) for argument in container_of(workload)["args"]]
        )


@pytest.mark.parametrize(
    "document",
    [*OBJECTS, *SECRETS],
    ids=lambda document: f"{document['kind']}-{document['metadata']['name']}",
)
def test_every_object_is_valid_and_has_no_field_that_kubernetes_does_not_know(
    document: dict[str, Any],
) -> None:
    kubernetes_validate.validate(document, VERSION, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    wrong = deepcopy(WORKLOADS[0])
    pod_of(wrong)["terminationGracePeriod"] = 30
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def test_all_files_are_applied_but_the_example_of_secrets() -> None:
    files = {path.name for path in KUBERNETES.glob("*.yaml")}
    assert files == {*KUSTOMIZATION["resources"], "kustomization.yaml", "secrets.example.yaml"}
    assert KUSTOMIZATION["namespace"] in of_kind("Namespace")
    [image] = KUSTOMIZATION["images"]
    assert {container_of(workload)["image"] for workload in WORKLOADS} == {image["name"]}


def test_selectors_select_what_they_are_for() -> None:
    for workload in WORKLOADS:
        name = workload["metadata"]["name"]
        assert selected(workload["spec"]["selector"]["matchLabels"]) == [name]
        for spread in pod_of(workload)["topologySpreadConstraints"]:
            assert selected(spread["labelSelector"]["matchLabels"]) == [name]
    budgets = [
        selected(each["spec"]["selector"]["matchLabels"]) for each in of_kind("PodDisruptionBudget").values()
    ]
    assert sorted(budgets) == sorted([workload["metadata"]["name"]] for workload in WORKLOADS)
    for service in of_kind("Service").values():
        [name] = selected(service["spec"]["selector"])
        [workload] = [each for each in WORKLOADS if each["metadata"]["name"] == name]
        ports = {port["name"] for port in container_of(workload)["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def references(workload: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, key) of every ConfigMap and Secret; no key where all of it is meant."""
    for volume in pod_of(workload)["volumes"]:
        for kind, field, name in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            if source := volume.get(field):
                keys = [item["key"] for item in source.get("items", ())] or [""]
                yield from ((kind, source[name], key) for key in keys)
    for variable in container_of(workload).get("env", ()):
        source = variable.get("valueFrom", {})
        for kind, field in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
            if field in source:
                yield kind, source[field]["name"], source[field]["key"]
    for source in container_of(workload).get("envFrom", ()):
        yield "Secret", source["secretRef"]["name"], ""


@named
def test_config_maps_secrets_and_volumes_are_there(workload: dict[str, Any]) -> None:
    found = list(references(workload))
    assert len(found) >= 4
    for kind, name, key in found:
        held = of_kind(kind)[name]
        assert not key or key in held.get("data", held.get("stringData"))
    for mount in container_of(workload)["volumeMounts"]:
        volume = mounted(workload)[PurePosixPath(mount["mountPath"])]
        if "subPath" in mount:
            assert mount["subPath"] in of_kind("ConfigMap")[volume["configMap"]["name"]]["data"]
    assert len(mounted(workload)) == len(pod_of(workload)["volumes"]) + len(
        workload["spec"].get("volumeClaimTemplates", ())
    )


@named
def test_commands_are_those_of_kcontrol_and_find_their_files(
    workload: dict[str, Any], tmp_path: Path
) -> None:
    found, places = options(workload, tmp_path), mounted(workload)
    assert found["cluster"].client["sasl.password"] == "a-password"
    authority = PurePosixPath(found["cluster"].client["ssl.ca.location"])
    [item] = places[authority.parent]["secret"]["items"]
    assert item["path"] == authority.name
    token = PurePosixPath(found["token_file"])
    assert token.name in of_kind("Secret")[places[token.parent]["secret"]["secretName"]]["stringData"]
    assert not is_loopback(found["host"])
    [port] = container_of(workload)["ports"]
    assert port["containerPort"] == found["port"]
    # Where the command looks for its settings: the image's working directory.
    [workdir] = re.findall(r"^WORKDIR (/var/\S+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert PurePosixPath(workdir, "kcontrol.toml") in places


@named
def test_probes_ask_for_what_is_served(workload: dict[str, Any]) -> None:
    container = container_of(workload)
    [port] = container["ports"]
    asked = {}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        request = container[probe]["httpGet"]
        assert request["port"] == port["name"]
        assert serves(container["args"][0], request["path"])
        asked[probe] = request["path"]
    # A server that can't reach Kafka must not be killed for it.
    assert asked["livenessProbe"] == asked["startupProbe"] == "/health/live"
    if container["args"][0] != "node":
        assert asked["readinessProbe"] == "/health/ready"


@named
def test_pods_may_do_nothing_that_they_need_not(workload: dict[str, Any]) -> None:
    pod, container = pod_of(workload), container_of(workload)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    user = re.search(r"^USER (\d+):(\d+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (
        int(user[1]),
        int(user[2]),
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {
        str(path) for path, volume in mounted(workload).items() if "emptyDir" in volume or "claim" in volume
    }
    assert writable - {"/opt/jit"} == {"/tmp", "/var/lib/kcontrol"}
    assert container["resources"]["limits"]["memory"]
    assert pod["terminationGracePeriodSeconds"] >= 30


def test_the_nodes_are_those_of_the_pipeline(tmp_path: Path) -> None:
    [nodes] = [each for each in WORKLOADS if each["kind"] == "StatefulSet"]
    [number] = [each["valueFrom"] for each in container_of(nodes)["env"] if each["name"] == "NODE"]
    assert number == {"fieldRef": {"fieldPath": POD_INDEX}}
    assert nodes["spec"]["replicas"] == departures.NODES
    assert [options(nodes, tmp_path, index)["number"] for index in range(departures.NODES)] == [0, 1, 2]
    assert nodes["spec"]["podManagementPolicy"] == "Parallel"
    headless = of_kind("Service")[nodes["spec"]["serviceName"]]
    assert headless["spec"]["clusterIP"] == "None"
    assert selected(headless["spec"]["selector"]) == [nodes["metadata"]["name"]]


def test_what_the_image_has_compiled_is_there_and_can_be_added_to() -> None:
    [nodes] = [each for each in WORKLOADS if each["kind"] == "StatefulSet"]
    [copying] = pod_of(nodes)["initContainers"]
    assert copying["image"] == container_of(nodes)["image"]
    [target] = copying["volumeMounts"]
    cache = re.search(r"NUMBA_CACHE_DIR=(\S+)", (DOCKER / "Dockerfile").read_text())
    assert cache is not None
    assert copying["command"] == ["cp", "-r", f"{cache[1]}/.", target["mountPath"]]
    volume = mounted(nodes)[PurePosixPath(cache[1])]
    assert volume == {"name": target["name"], "emptyDir": {}}
    assert copying["securityContext"] == container_of(nodes)["securityContext"]


def test_the_pipeline_is_the_example(tmp_path: Path) -> None:
    [nodes] = [each for each in WORKLOADS if each["kind"] == "StatefulSet"]
    file = PurePosixPath(options(nodes, tmp_path)["file"])
    config = of_kind("ConfigMap")[mounted(nodes)[file.parent]["configMap"]["name"]]
    assert config["data"] == {file.name: (ROOT / "examples" / file.name).read_text()}
    variables = {each["name"] for each in container_of(nodes)["env"]}
    assert "DEPARTURES_CHECKPOINTS" in variables
