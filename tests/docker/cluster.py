"""docker/compose.yaml, started in a project of its own from a copy of docker/ and
examples/, and what a test asks of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = "kcontrol-test"
BOOTSTRAP_SERVERS, REST, PROMETHEUS = "127.0.0.1:9092", "http://127.0.0.1:8480", "http://127.0.0.1:9090"
COMMAND_TIMEOUT_S = 600
LOG_LINES = 40
LOOK_EVERY_S = 0.5

KILL = "import os; [os.kill(int(child), 9) for child in open('/proc/1/task/1/children').read().split()]"
"""Run in a container: SIGKILL to kcontrol, which is the child of the first process there."""


class Cluster:
    """One start of the compose file. home: an empty directory. image: of kcontrol.
    without: services that are left out."""

    def __init__(self, home: Path, image: str, without: Sequence[str] = ()) -> None:
        for name in ("docker", "examples"):
            shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__", "secrets"))
        self.directory = home / "docker"
        self._file = self.directory / "compose.yaml"
        self._environment = {**os.environ, "KCONTROL_IMAGE": image, "COMPOSE_PROJECT_NAME": PROJECT}
        defined = yaml.safe_load(self._file.read_text(encoding="utf-8"))["services"]
        self.services = [name for name in defined if name not in without]
        subprocess.run(["sh", self.directory / "secrets.sh"], check=True, timeout=COMMAND_TIMEOUT_S)
        self.token = (self.directory / "secrets" / "kcontrol-token").read_text()

    def start(self) -> None:
        """Returns when all containers are created and those that wait for others have been started."""
        self.compose("up", "--detach", *self.services)

    def remove(self) -> None:
        """Containers, networks and volumes."""
        self.compose("down", "--volumes", "--timeout", "5")

    def compose(self, *arguments: str) -> str:
        """Standard output of a compose command. Raises AssertionError with what it said."""
        return run([*_compose(), "--file", str(self._file), *arguments], self._environment)

    def container(self, service: str) -> str:
        """Its container's id, running or not."""
        [found] = run(
            ["docker", "ps", "--all", "--quiet"]
            + [
                f"--filter=label=com.docker.compose.{what}={name}"
                for what, name in (("project", PROJECT), ("service", service))
            ]
        ).split()
        return found

    def state(self, service: str) -> dict[str, Any]:
        """As the engine says, with the number of restarts as `RestartCount`."""
        [found] = json.loads(run(["docker", "inspect", self.container(service)]))
        return {**found["State"], "RestartCount": found["RestartCount"]}

    def execute(self, service: str, *command: str) -> str:
        """Standard output of a command in the service's container."""
        return run(["docker", "exec", self.container(service), *command])

    def kill(self, service: str) -> None:
        """SIGKILL to its kcontrol: the container ends with it, and the engine starts it again as compose.yaml
        says."""
        # The engine ends this command with the container, or it ends before.
        run(["docker", "exec", self.container(service), "python3", "-c", KILL], ended_with=(0, 137))

    def get(self, path: str) -> Any:
        """An answer of `kcontrol serve`."""
        return _json(httpx.get(REST + path, headers={"Authorization": f"Bearer {self.token}"}, timeout=30))

    def post(self, path: str) -> Any:
        """The answer to a request."""
        return _json(httpx.post(REST + path, headers={"Authorization": f"Bearer {self.token}"}, timeout=30))

    def last_words(self) -> str:
        """Of every service."""
        return self.compose("logs", f"--tail={LOG_LINES}")


def ask_prometheus(path: str, **parameters: str) -> Any:
    """`data` of an answer of its API."""
    return _json(httpx.get(f"{PROMETHEUS}/api/v1/{path}", params=parameters, timeout=30))["data"]


def eventually(found: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Ask those who tell nothing by themselves until it holds. Raises AssertionError when it does not in
    time."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if found():
                return
        except (httpx.HTTPError, AssertionError):
            if time.monotonic() >= deadline:
                raise
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:.0f} s"
        time.sleep(LOOK_EVERY_S)


def run(
    command: Sequence[str], environment: Mapping[str, str] = os.environ, ended_with: Sequence[int] = (0,)
) -> str:
    """Standard output. Raises AssertionError with what it said if it ends otherwise."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, env=dict(environment), check=False
    )
    assert done.returncode in ended_with, (
        f"{' '.join(command)}\n{done.stdout[-4_000:]}\n{done.stderr[-4_000:]}"
    )
    return done.stdout


def _compose() -> list[str]:
    """The plugin of the engine's client, or the program of old."""
    plugin = subprocess.run(
        ["docker", "compose", "version"], capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


def _json(answer: httpx.Response) -> Any:
    assert answer.status_code < 300, f"{answer.request.url}: {answer.status_code} {answer.text}"
    return answer.json()
