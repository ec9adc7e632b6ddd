"""A kubelet that is none: it takes every pod of a namespace, and runs its commands as processes of this machine.

What of a pod holds: its commands and arguments, variables (values, ConfigMaps, Secrets, its own fields), volumes (ConfigMaps,
Secrets with items, empty ones and claims, each a folder; `subPath`), readiness by HTTP, restarts, and SIGTERM before SIGKILL.
What does not: there is no image, no user, no limit and no name of its own. A mount is a folder of the pod, and paths in
arguments and variables are changed to it; the address 0.0.0.0 is changed to the pod's own, of which each has one.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.kubernetes.server import KubernetesServer
from tests.support.processes import ROOT

NODE = "here"
_LOOK_S = 0.3
_TOKEN_MOUNT = "/run/kcontrol"


class _Pod:
    """One that runs here."""

    def __init__(self, kubelet: Kubelet, pod: dict[str, Any], address: str) -> None:
        self.kubelet, self.pod, self.address = kubelet, pod, address
        self.name, self.uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.home = kubelet.home / f"{self.name}-{self.uid[:8]}"
        self.home.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ready, self.restarts = False, 0
        self.ended_s = 0.0
        self._mounts = self._mounted()

    # --- volumes --------------------------------------------------------------------------------------------

    def _mounted(self) -> dict[str, Path]:
        """By path in the container: where it is here; longest first."""
        volumes = {each["name"]: self._volume(each) for each in self.pod["spec"].get("volumes", ())}
        found = {}
        containers = (*self.pod["spec"].get("initContainers", ()), *self.pod["spec"]["containers"])
        for mount in (each for one in containers for each in one.get("volumeMounts", ())):
            where = volumes[mount["name"]]
            found[mount["mountPath"]] = where / mount["subPath"] if "subPath" in mount else where
        for path, where in list(found.items()):
            inner = next((one for one in found if one != path and path.startswith(f"{one}/")), None)
            if inner is not None:
                shutil.copy(where, found[inner] / Path(path).name)
        return dict(sorted(found.items(), key=lambda each: -len(each[0])))

    def _volume(self, volume: dict[str, Any]) -> Path:
        where = self.home / volume["name"]
        if "persistentVolumeClaim" in volume:
            where = self.kubelet.home / "claims" / volume["persistentVolumeClaim"]["claimName"]
        where.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            for name, text in self.kubelet.config(volume["configMap"]["name"]).items():
                (where / name).write_text(text)
        if "secret" in volume:
            held = self.kubelet.secret(volume["secret"]["secretName"])
            for name in [each["key"] for each in volume["secret"].get("items", ())] or held:
                (where / name).write_text(held[name])
        return where

    def _here(self, text: str) -> str:
        for path, where in self._mounts.items():
            text = text.replace(path, str(where)) if path != "/tmp" else text
        return text.replace("0.0.0.0", self.address)

    # --- what runs ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The first container of each pod here is the only one; what comes before it has copied something."""
        [container] = self.pod["spec"]["containers"]
        variables = self._variables(container)
        arguments = []
        for argument in container.get("args", ()):
            for name, value in variables.items():
                argument = argument.replace(f"$({name})", value)
            arguments.append(self._here(argument))
        home = next((where for path, where in self._mounts.items() if path == "/var/lib/kcontrol"), self.home)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KCONTROL_")}
        with (self.kubelet.home / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kcontrol.cli", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env={**kept, "PYTHONPATH": str(ROOT), **variables},
                start_new_session=True,
            )

    def _variables(self, container: dict[str, Any]) -> dict[str, str]:
        found = {}
        for variable in container.get("env", ()):
            source = variable.get("valueFrom", {})
            if "configMapKeyRef" in source:
                key = source["configMapKeyRef"]
                value = self.kubelet.config(key["name"])[key["key"]]
            elif "secretKeyRef" in source:
                key = source["secretKeyRef"]
                value = self.kubelet.secret(key["name"])[key["key"]]
            elif "fieldRef" in source:
                value = self._field(source["fieldRef"]["fieldPath"])
            else:
                value = variable.get("value", "")
            found[variable["name"]] = value
        return found

    def _field(self, path: str) -> str:
        meta = self.pod["metadata"]
        if path.startswith("metadata.labels['"):
            return str(meta["labels"][path.split("'")[1]])
        return str(meta[path.removeprefix("metadata.")])

    def tend(self) -> str:
        """Start it again if it has ended; returns its phase."""
        assert self.process is not None
        if self.process.poll() is not None:
            self.is_ready = False
            if time.monotonic() - self.ended_s > 1:
                self.ended_s = time.monotonic()
                self.restarts += 1
                self.start()
            return "Running"
        self.is_ready = self._ready()
        return "Running"

    def _ready(self) -> bool:
        [container] = self.pod["spec"]["containers"]
        probe = container.get("readinessProbe", {}).get("httpGet")
        if probe is None:
            return True
        [port] = [each["containerPort"] for each in container["ports"] if each["name"] == probe["port"]]
        asked = urllib.request.Request(f"http://{self.address}:{port}{probe['path']}")
        try:
            with urllib.request.urlopen(asked, timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self, grace_s: float) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(grace_s)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Kubelet(threading.Thread):
    """Until `stop`. home: logs of the pods, by their names, and what they write."""

    def __init__(self, server: KubernetesServer, home: Path, namespace: str = "kcontrol") -> None:
        super().__init__(daemon=True)
        self.home, self._server, self._namespace = home, server, namespace
        self._pods: dict[str, _Pod] = {}
        self._said: dict[str, tuple[object, ...]] = {}
        self._stopping = threading.Event()
        self._addresses = self._free_addresses()
        self.failures: list[str] = []
        home.mkdir(parents=True, exist_ok=True)

    def config(self, name: str) -> dict[str, str]:
        found = self._server.get("configmap", name, self._namespace)
        assert found is not None, name
        return dict(found["data"])

    def secret(self, name: str) -> dict[str, str]:
        found = self._server.get("secret", name, self._namespace)
        assert found is not None, name
        return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}

    def run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - what fails once is tried again, and shown
                self.failures.append("".join(traceback.format_exception(error)))

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        for pod in self._pods.values():
            pod.stop(0)

    def _look(self) -> None:
        there = {each["metadata"]["uid"]: each for each in self._server.all("pods", self._namespace)}
        for uid, pod in there.items():
            if pod["metadata"].get("deletionTimestamp"):
                self._remove(uid, pod)
            else:
                self._tend(uid, pod)
        for uid in [uid for uid in self._pods if uid not in there]:
            self._pods.pop(uid).stop(0)

    def _tend(self, uid: str, pod: dict[str, Any]) -> None:
        if uid not in self._pods:
            self._bind(pod)
            running = _Pod(self, pod, next(self._addresses))
            running.start()
            self._pods[uid] = running
        running = self._pods[uid]
        self._show(running, running.tend())

    def _bind(self, pod: dict[str, Any]) -> None:
        if pod["spec"].get("nodeName"):
            return
        meta = {"name": pod["metadata"]["name"], "namespace": self._namespace}
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        where = f"/api/v1/namespaces/{self._namespace}/pods/{meta['name']}/binding"
        self._server.kubectl("create", "--raw", where, "-f", "-", given=json.dumps(binding))

    def _show(self, running: _Pod, phase: str) -> None:
        said = phase, running.is_ready, running.restarts
        if self._said.get(running.uid) == said:
            return
        ready = str(running.is_ready)
        [container] = running.pod["spec"]["containers"]
        state: Mapping[str, Any] = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": running.is_ready,
            "restartCount": running.restarts,
            "state": {"running": {}},
        }
        status = {
            "phase": phase,
            "podIP": running.address,
            "conditions": [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")],
            "containerStatuses": [state],
        }
        self._server.kubectl(
            *("-n", self._namespace, "patch", "pod", running.name, "--subresource=status", "--type=merge"),
            *("-p", json.dumps({"status": status})),
        )
        self._said[running.uid] = said

    def _remove(self, uid: str, pod: dict[str, Any]) -> None:
        running = self._pods.pop(uid, None)
        if running is not None:
            running.stop(float(pod["metadata"].get("deletionGracePeriodSeconds", 30)))
        self._server.kubectl(
            *("-n", self._namespace, "delete", "pod", pod["metadata"]["name"]),
            *("--grace-period=0", "--force", "--ignore-not-found", "--wait=false"),
        )

    @staticmethod
    def _free_addresses() -> Iterator[str]:
        for number in itertools.count(2):
            yield f"127.77.{number // 250}.{number % 250 + 1}"
