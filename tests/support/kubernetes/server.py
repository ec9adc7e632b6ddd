"""kube-apiserver and kube-controller-manager on Debian's etcd, on ports of this machine's own address."""

from __future__ import annotations

import os
import secrets
import shutil
import ssl
import subprocess
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.support.ports import free_ports
from tests.support.processes import until

VERSION = "v1.37.2"
BINARIES = (
    Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    / "kcontrol"
    / "kubernetes"
    / VERSION
    / "bin"
)
"""Where `make kubernetes-test` puts what it has built."""
_CONTROLLERS = (
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "disruption-controller",
    "namespace-controller",
    "serviceaccount-controller",
)
"""Not those of nodes: the one that there is, is none, and says nothing."""
_START_S = 120.0
_OPERATOR = "system:serviceaccount:kcontrol:kcontrol-operator"
"""As the API server knows the operator's pods, of which each has a token of that account."""


def missing(*binaries_of: str) -> str:
    """What the tests need and is not here, or ''."""
    binaries = [BINARIES / name for name in binaries_of]
    lost = [path.name for path in binaries if not path.exists()]
    lost += [name for name in ("etcd", "kubectl", "openssl") if shutil.which(name) is None]
    return ", ".join(lost)


class KubernetesServer:
    """A context: etcd, the API server and the controllers, each a process that ends with it."""

    def __init__(self, home: Path, *, controls: bool = True) -> None:
        """controls: whether anything makes pods of workloads, and lets go what nobody owns."""
        self.home, self._controls = home, controls
        self.token, self._operator_token = secrets.token_hex(16), secrets.token_hex(16)
        self.kubeconfig = home / "kubeconfig"
        self.operator_kubeconfig = home / "operator-kubeconfig"
        """By which the operator has the rights of its account and no others."""
        self._etcd, self._peers, self._port = free_ports(3)
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def __enter__(self) -> KubernetesServer:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        key = self.home / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (self.home / "tokens.csv").write_text(
            f'{self.token},tester,tester,"system:masters"\n'
            f'{self._operator_token},{_OPERATOR},operator,"system:serviceaccounts,system:authenticated"\n'
        )
        self._write_kubeconfig(self.kubeconfig, self.token)
        self._write_kubeconfig(self.operator_kubeconfig, self._operator_token)
        self._run_etcd()
        self._run(
            BINARIES / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.home / 'certificates'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.home / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        )
        until(self._is_ready, "the API server is ready", _START_S, self._said)
        if self._controls:
            self._run_controllers(key)

    def _run_controllers(self, key: Path) -> None:
        self._run(
            BINARIES / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            f"--service-account-private-key-file={key}",
            f"--cert-dir={self.home / 'certificates'}",
            "--secure-port=0",
        )

    def _run_etcd(self) -> None:
        clients, peers = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peers}"
        self._run(
            Path(shutil.which("etcd") or "etcd"),
            f"--data-dir={self.home / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )

    def _run(self, binary: Path, *arguments: str) -> None:
        log = self._stack.enter_context((self.home / f"{binary.name}.log").open("wb"))
        process = subprocess.Popen([binary, *arguments], stdout=log, stderr=log, cwd=self.home)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def _write_kubeconfig(self, file: Path, token: str) -> None:
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "tester"}}],
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "tester", "user": {"token": token}}],
        }
        file.write_text(yaml.safe_dump(config))

    def _is_ready(self) -> bool:
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        asked = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with urllib.request.urlopen(asked, context=unchecked, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.home.glob("*.log"))

    def kubectl(self, *arguments: str, given: str | None = None, refused: bool = False) -> str:
        """What it prints; of what is refused, what it complains of."""
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode != 0) == refused, done.stderr + done.stdout
        return done.stderr if refused else done.stdout

    def apply(self, *objects: dict[str, Any], refused: bool = False) -> str:
        documents = yaml.safe_dump_all(objects)
        return self.kubectl("apply", "--server-side", "-f", "-", given=documents, refused=refused)

    def get(self, kind: str, name: str, namespace: str = "kcontrol") -> dict[str, Any] | None:
        text = self.kubectl("-n", namespace, "get", kind, name, "-o", "yaml", "--ignore-not-found")
        found: dict[str, Any] | None = yaml.safe_load(text) if text.strip() else None
        return found

    def all(self, kind: str, namespace: str = "kcontrol") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = yaml.safe_load(
            self.kubectl("-n", namespace, "get", kind, "-o", "yaml")
        )["items"]
        return found
