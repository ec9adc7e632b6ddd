"""One API server for all tests here, with kcontrol's resources and their namespace; skipped where it was not built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.kubernetes.server import KubernetesServer, missing

DOCKER = Path(__file__).parents[2] / "docker" / "kubernetes"


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """As a new user would set it up: `kubectl apply` of the manifests."""
    lost = missing("kube-apiserver", "kube-controller-manager")
    if lost:
        pytest.skip(f"{lost} is missing: make kubernetes-test builds what can be built")
    with KubernetesServer(tmp_path_factory.mktemp("kubernetes")) as server:
        server.kubectl("apply", "-f", str(DOCKER / "namespace.yaml"))
        server.kubectl("apply", "-f", str(DOCKER / "secrets.example.yaml"))
        server.kubectl("apply", "--namespace=kcontrol", "-f", str(DOCKER / "operator" / "rbac.yaml"))
        for name in ("pipelines", "consistentregions", "consistentregionoperators"):
            definition = DOCKER / "operator" / f"{name}.yaml"
            server.kubectl("apply", "-f", str(definition))
            server.kubectl(
                "wait",
                "--for=condition=Established",
                f"crd/{yaml.safe_load(definition.read_text())['metadata']['name']}",
            )
        yield server
