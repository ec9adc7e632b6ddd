"""A pipeline over HTTP from its definition to its end, with a real coordinator and a real
node, which is profiled meanwhile.

One story on one broker, because each start of Spark takes seconds.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

import kcontrol
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, run_kcontrol, until
from tests.support.topics import create_topic

pytestmark = pytest.mark.timeout(900)

FILE = Path(__file__).parents[1] / "pipelines" / "relay.py"
PATIENCE_S = 240.0
TOKEN = "a-token-of-some-length"


class Story:
    """The pipeline's names, topics and environment, and a server with a client."""

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        self.name, self.directory, self.settings = f"relay-{secrets.token_hex(3)}", directory, settings
        self.words = f"{self.name}-words"
        for topic in (self.words, f"{self.name}-shouts"):
            create_topic(settings, topic)
        ensure_topics(settings)
        self.env = {
            "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "XDG_DATA_HOME": str(directory / "home"),
            "RELAY_PIPELINE": self.name,
            "RELAY_CHECKPOINTS": str(directory / "checkpoints"),
        }
        self.token_file = directory / "token"
        self.token_file.write_text(TOKEN)

    def command(self, *arguments: str) -> str:
        done = run_kcontrol(*arguments, env=self.env, cwd=self.directory, timeout_s=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def process(self, name: str, *arguments: str) -> Iterator[KcontrolProcess]:
        log = self.directory / f"{name}.log"
        with KcontrolProcess(*arguments, log=log, env=self.env, cwd=self.directory) as process:
            yield process

    def produce(self, count: int) -> str:
        """So many words; their completion token."""
        delivered: list[Any] = []
        producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers})
        for number in range(count):
            producer.produce(
                self.words, b"word %d" % number, on_delivery=lambda _, message: delivered.append(message)
            )
        assert producer.flush(HANG_S) == 0
        return kcontrol.completion_token(*delivered)


class Server:
    """One pipeline at a server."""

    def __init__(self, client: httpx.Client, pipeline: str) -> None:
        self.client, self.base = client, f"/v1/pipelines/{pipeline}"

    def get(self, path: str = "", **query: Any) -> Any:
        answer = self.client.get(f"{self.base}{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, path: str, body: Any = None) -> None:
        """Until it is done."""
        answer = self.client.post(f"{self.base}{path}", json=body)
        assert answer.status_code == 202, answer.text
        outcome = answer.json()["outcome"]
        until(
            lambda: self.client.get(outcome).json()["state"] == "done",
            f"{path} is done",
            PATIENCE_S,
            lambda: str(self.get()),
        )

    def is_complete(self, token: str) -> bool:
        return bool(self.get("/completion", token=token, wait_s=1)["complete"])


@pytest.fixture
def story(settings: ClusterSettings, tmp_path: Path) -> Story:
    return Story(settings, tmp_path)


def url_of(process: KcontrolProcess, word: str) -> str:
    process.says(f'"{word}"', PATIENCE_S)
    said = next(
        line for line in process.text().splitlines() if line.startswith("{") and word in json.loads(line)
    )
    return str(json.loads(said)[word])


def test_a_pipeline_is_submitted_run_looked_into_and_shut_down_over_http(story: Story) -> None:
    definition = json.loads(story.command("submit", str(FILE), "--print"))
    with ExitStack() as stack:
        serving = stack.enter_context(story.process("serve", "serve", "--port", "0", "--json"))
        client = stack.enter_context(httpx.Client(base_url=url_of(serving, "serve"), timeout=PATIENCE_S))
        until(lambda: client.get("/health/ready").status_code == 200, "the server is ready")
        submitted = client.post(f"/v1/pipelines/{story.name}/spec", json=definition)
        assert submitted.status_code == 200, submitted.text
        assert (
            json.loads(story.command("submit", str(FILE), "--json"))["fingerprint"]
            == definition["fingerprint"]
        )
        server = Server(client, story.name)
        assert server.get("/spec")["spec"] == definition
        stack.enter_context(story.process("coordinator", "coordinator"))
        listens = ("--metrics-port", "0", "--token-file", str(story.token_file))
        node = stack.enter_context(
            story.process("node", "node", str(FILE), "--master", "local[2]", "--json", *listens)
        )
        own = url_of(node, "metrics")
        until(
            lambda: server.get("/nodes/0")["node"]["listens"] == own,
            "the node has joined",
            PATIENCE_S,
            node.text,
        )

        token = story.produce(20)
        until(lambda: server.is_complete(token), "all words are through", PATIENCE_S, node.text)
        step = server.get("/steps/by-input", input="words", partition=0, offset=19)["step"]["step"]
        assert server.get("/completion", token=token)["records"][-1]["step"] == step

        server.ask("/inputs/words/pause")
        late = story.produce(3)
        assert server.get("/inputs/words")["input"]["paused"] is True
        assert not server.is_complete(late)
        server.ask("/inputs/words/start")
        until(lambda: server.is_complete(late), "the late words are through", PATIENCE_S, node.text)

        _profile(client, server, own)
        server.ask("/shutdown")
        node.says('"stands_by": true', PATIENCE_S)
        assert node.terminate() == 0
        assert TOKEN not in node.text()


def _profile(client: httpx.Client, server: Server, own: str) -> None:
    def profile(what: str) -> httpx.Response:
        there = client.get(f"{server.base}/nodes/0/profile/{what}").headers["location"]
        assert there.startswith(f"{own}/profile/")
        assert httpx.get(there, timeout=PATIENCE_S).status_code == 401
        taken = httpx.get(there, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)
        assert taken.status_code == 200, taken.text
        return taken

    assert profile("cpu?part=jvm&seconds=1").content.startswith(b"FLR\0")
    assert "java.lang.String" in profile("heap?part=jvm").text
    until(
        lambda: "MainThread" in profile("cpu?seconds=3").text,
        "the node's main thread has used CPU time",
        PATIENCE_S,
    )
    assert "builtins.dict" in profile("heap").text
