"""docs/howto/push.md, and rows that are pushed while servers are killed: each in exactly one step, and equal in a replay."""

from __future__ import annotations

import json
import random
import secrets
import shlex
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.docs.blocks import blocks_of
from tests.support.dice import say_seed, seed_of_run
from tests.support.patience import HANG_S
from tests.support.ports import free_ports
from tests.support.processes import ROOT, KcontrolProcess, environment, objects, run_kcontrol, until
from tests.support.topics import create_topic

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.heavy]

PAGE, FILE = "docs/howto/push.md", ROOT / "tests" / "pipelines" / "pushed.py"
PATIENCE_S = 500.0
REQUESTS, ROWS, CLIENTS, KILLS = 60, 5, 4, 3


class Story:
    """A pipeline that runs, and servers of it."""

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        self.name, self.directory, self.settings = f"pushed-{secrets.token_hex(3)}", directory, settings
        for topic, partitions in (("orders", 3), ("copies", 1)):
            create_topic(settings, f"{self.name}-{topic}", partitions)
        self.env = {
            "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "XDG_DATA_HOME": str(directory / "home"),
            "PUSHED_PIPELINE": self.name,
        }

    @contextmanager
    def running(self) -> Iterator[KcontrolProcess]:
        log = self.directory / "run.log"
        with KcontrolProcess("run", str(FILE), log=log, env=self.env, cwd=self.directory) as process:
            process.says("running at step", PATIENCE_S)
            yield process

    def server(self, port: int) -> KcontrolProcess:
        command = ["serve", "--max-push-bytes", "8388608", "--port", str(port)]
        log = self.directory / f"serve-{port}.log"
        return KcontrolProcess(*command, log=log, env=self.env, cwd=self.directory)

    def copies(self) -> dict[tuple[str, int], list[int]]:
        """By row: the steps that wrote it."""
        found: dict[tuple[str, int], list[int]] = {}
        for message in read_topics(self.settings.bootstrap_servers, [f"{self.name}-copies"]):
            row, step = json.loads(message.value()), int(dict(message.headers())["step"])
            found.setdefault((row["customer"], row["amount"]), []).append(step)
        return found


@pytest.fixture
def story(settings: ClusterSettings, tmp_path: Path) -> Story:
    return Story(settings, tmp_path)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=HANG_S).status_code == 200
    except httpx.TransportError:
        return False


def test_the_page_comes_true(story: Story) -> None:
    insert, serve, push, shown, packing, packed = (
        each for each in blocks_of(PAGE) if each.argument.endswith("cli/test_pushes.py")
    )
    subprocess.run([sys.executable, "-c", packing.text], cwd=story.directory, check=True, timeout=PATIENCE_S)
    (story.directory / "new.csv").write_text("customer,amount\nann,1\nbob,2\n")
    (story.directory / "new.ndjson").write_text(
        '{"customer":"eve","amount":4}\n{"customer":"eve","amount":5}\n'
    )
    [port] = free_ports(1)
    with story.running(), ExitStack() as stack:
        for line in insert.text.strip().splitlines():
            here = line.replace("insert orders ", f"insert {story.name} ")
            here = here.replace("kcontrol insert", "python -m kcontrol.cli insert")
            done = subprocess.run(
                ["bash", "-c", f"set -o pipefail; {here}"],
                capture_output=True, text=True, cwd=story.directory, env=_with_python(story), timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "in committed steps up to" in done.stdout
        again = run_kcontrol(
            "insert", story.name, "orders", "new.csv", "--id", "correction-7", "--json", env=story.env, cwd=story.directory
        )  # fmt: skip
        assert objects(again.stdout)[0]["replayed"] is True
        words = shlex.split(serve.text)[1:]
        log = story.directory / "serve.log"
        server = stack.enter_context(
            KcontrolProcess(*words, "--port", str(port), log=log, env=story.env, cwd=story.directory)
        )
        until(lambda: _answers(port), "the server is ready", HANG_S, server.text)
        push_command, *packed_commands = (
            line.replace("localhost:8480", f"127.0.0.1:{port}").replace("/orders/", f"/{story.name}/", 1)
            for line in f"{push.text.strip()}\n{packed.text.strip()}".splitlines()
        )
        answer, documented = _curl(story, push_command), json.loads(shown.text)
        assert answer.keys() == documented.keys(), answer
        same = ("input", "request_id", "records", "replayed", "complete")
        assert {name: answer[name] for name in same} == {name: documented[name] for name in same}
        answers = [_curl(story, command) for command in packed_commands]
        assert [each["replayed"] for each in answers] == [False, True], answers
        until(lambda: _is_complete(story.name, [port], answers[0]["token"]), "rows are in steps", HANG_S)
    rows = {("ann", 1), ("bob", 2), ("bob", 3), ("eve", 4), ("eve", 5), ("kim", 6), ("kim", 7)}
    assert {row: len(steps) for row, steps in story.copies().items()} == dict.fromkeys(rows, 1)


def _curl(story: Story, command: str) -> dict[str, Any]:
    """The answer to the page's request, given again while Kafka is away for the server."""
    answers: list[dict[str, Any]] = []

    def is_answered() -> bool:
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=story.directory,
            timeout=PATIENCE_S,
            check=True,
        )
        answers.append(json.loads(done.stdout))
        return answers[-1].get("status") != httpx.codes.SERVICE_UNAVAILABLE

    until(is_answered, "Kafka is there for the server", HANG_S, lambda: str(answers[-1:]))
    return answers[-1]


def _with_python(story: Story) -> dict[str, str]:
    found = environment(story.env)
    return {**found, "PATH": f"{ROOT / '.venv' / 'bin'}:{found['PATH']}"}


def test_each_row_is_in_one_step_while_servers_are_killed_and_clients_ask_two_at_once(story: Story) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    ports, done, killed = free_ports(2), threading.Event(), threading.Event()
    with story.running(), ExitStack() as stack:
        servers = {port: stack.enter_context(story.server(port)) for port in ports}
        for port, server in servers.items():
            until(lambda port=port: _answers(port), "the server is ready", HANG_S, server.text)
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            killing = pool.submit(_kill, servers, random.Random(seed + 1), done, killed)
            asked = [
                pool.submit(
                    _ask,
                    story.name,
                    range(client, REQUESTS, CLIENTS),
                    ports,
                    random.Random(dice.random()),
                    killed,
                )
                for client in range(CLIENTS)
            ]
            try:
                tokens = [token for each in asked for token in each.result(PATIENCE_S)]
            finally:
                done.set()
            kills = killing.result(HANG_S)
        assert kills >= KILLS
        assert len(tokens) == REQUESTS
        for token in tokens:
            until(lambda token=token: _is_complete(story.name, ports, token), "rows are in steps", HANG_S)
    copies = story.copies()
    expected = {(f"request {number}", row) for number in range(REQUESTS) for row in range(ROWS)}
    assert copies.keys() == expected
    assert Counter(len(steps) for steps in copies.values()) == {1: len(expected)}
    verified = run_kcontrol("verify", str(FILE), env=story.env, cwd=story.directory, timeout_s=PATIENCE_S)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def _is_complete(name: str, ports: list[int], token: str) -> bool:
    """As whichever server says that answers."""
    for port in ports:
        url = f"http://127.0.0.1:{port}/v1/pipelines/{name}/completion"
        try:
            answer = httpx.get(url, params={"token": token, "wait_s": 10}, timeout=HANG_S)
        except httpx.TransportError:
            continue
        if answer.status_code == 200:
            return bool(answer.json()["complete"])
    return False


def _kill(
    servers: dict[int, KcontrolProcess], dice: random.Random, done: threading.Event, killed: threading.Event
) -> int:
    """killed: set once there were as many kills as there must be."""
    kills = 0
    while not done.wait(dice.uniform(0.5, 4)):
        port = dice.choice(list(servers))
        servers[port].restart()
        kills += 1
        if kills >= KILLS:
            killed.set()
        until(
            lambda port=port: _answers(port) or done.is_set(),
            "the server is ready again",
            HANG_S,
            servers[port].text,
        )
    return kills


def _ask(
    name: str, numbers: range, ports: list[int], dice: random.Random, killed: threading.Event
) -> list[str]:
    """Each until there is an answer; some of two servers at once. The last one is asked when enough was killed: servers take
    long to start on a busy machine, and requests don't."""
    tokens = []
    for number in numbers:
        if number == numbers[-1]:
            assert killed.wait(PATIENCE_S), "servers are killed"
        body = "\n".join(json.dumps({"customer": f"request {number}", "amount": row}) for row in range(ROWS))
        answers: list[Any] = []
        while not answers:
            asked = ports if dice.random() < 0.3 else [dice.choice(ports)]
            with ThreadPoolExecutor(len(asked)) as pool:
                found = list(
                    pool.map(lambda port, body=body, number=number: _post(name, port, number, body), asked)
                )
            answers = [each for each in found if each is not None]
        assert len({each["token"] for each in answers}) == 1
        tokens.append(answers[0]["token"])
    return tokens


def _post(name: str, port: int, number: int, body: str) -> Any:
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"r{number}"}
    url = f"http://127.0.0.1:{port}/v1/pipelines/{name}/ingress/orders"
    try:
        answer = httpx.post(url, content=body, headers=headers, params={"key": "customer"}, timeout=HANG_S)
    except httpx.TransportError:
        return None
    assert answer.status_code in (200, 503), answer.text
    return answer.json() if answer.status_code == 200 else None
