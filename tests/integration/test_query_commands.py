"""`kcontrol query`, `query-server` and `serve` about two real nodes, while they make steps: every kept step is what its
input comes to, and no digest is another because somebody asked."""

from __future__ import annotations

import csv
import io
import json
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from kcontrol.settings.cluster import ClusterSettings
from tests.support.following import until_read
from tests.support.processes import ROOT, KcontrolProcess, run_kcontrol, until
from tests.support.topics import create_topic

pytestmark = [pytest.mark.timeout(1_500), pytest.mark.heavy]

FILE = ROOT / "tests" / "pipelines" / "asked.py"
PATIENCE_S = 300.0
ROUNDS, EACH, CUSTOMERS = 2, 150, 23
TRICKLE_EVERY_S = 3.0
SECRET = "0123456789abcdef-secret"


class World:
    """The pipeline's topics, what was sent, and commands about it."""

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        self.settings, self.directory, self.name = settings, directory, f"asked-{secrets.token_hex(3)}"
        self.env = {
            "ASKED_PIPELINE": self.name,
            "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "XDG_DATA_HOME": str(directory / "home"),
            "XDG_CACHE_HOME": str(directory / "cache"),
        }
        self.sent = 0
        for stem in ("orders", "totals", "firsts"):
            create_topic(settings, f"{self.name}-{stem}", 4)
        self._producer = Producer(
            {
                "bootstrap.servers": settings.bootstrap_servers,
                "partitioner": "murmur2",
                "enable.idempotence": True,
            }
        )

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            order = {"customer": f"c{number % CUSTOMERS}", "amount": number % 101}
            self._producer.produce(f"{self.name}-orders", json.dumps(order), order["customer"])
        assert self._producer.flush(60) == 0
        self.sent += count

    def until_read(self) -> None:
        until_read(
            self.settings,
            self.name,
            lambda read: read["orders"] == self.sent,
            "all orders are read",
            PATIENCE_S,
            str,
        )

    @contextmanager
    def trickle(self) -> Iterator[None]:
        """A few orders every few seconds, for as long as the block runs."""
        over = threading.Event()

        def send() -> None:
            while not over.wait(TRICKLE_EVERY_S):
                self.send(10)

        sending = threading.Thread(target=send)
        sending.start()
        try:
            yield
        finally:
            over.set()
            sending.join(60)

    def totals(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number in range(self.sent):
            one = found.setdefault(f"c{number % CUSTOMERS}", [0, 0])
            one[0], one[1] = one[0] + 1, one[1] + number % 101
        return found

    def command(self, *arguments: str) -> CompletedProcess[str]:
        done: CompletedProcess[str] = run_kcontrol(
            *arguments, env=self.env, cwd=self.directory, timeout_s=PATIENCE_S
        )
        return done

    def query(self, sql: str, *more: str, work: str = "data/nodes") -> CompletedProcess[str]:
        patient = ("--timeout", "250", "--niceness", "0")
        return self.command("query", self.name, "--sql", sql, "--work-dir", work, *patient, *more)

    @contextmanager
    def process(self, what: str, *arguments: str) -> Iterator[KcontrolProcess]:
        log = self.directory / f"{what}.log"
        with KcontrolProcess(*arguments, log=log, env=self.env, cwd=self.directory) as process:
            yield process


def test_two_nodes_are_asked_while_they_make_steps(settings: ClusterSettings, tmp_path: Path) -> None:
    world = World(settings, tmp_path)
    expected: dict[int, dict[str, list[int]]] = {}
    with world.process("run", "run", str(FILE), "--data-dir", "data", "--master", "local[1]") as run:
        run.says("open", PATIENCE_S)
        for _ in range(ROUNDS):
            world.send(EACH)
            world.until_read()
            saved = world.command("checkpoint", world.name, "--json", "--timeout", "200")
            assert saved.returncode == 0, saved.stderr
            expected[json.loads(saved.stdout)["step"]] = world.totals()
        assert len(expected) == ROUNDS
        with world.trickle():  # Steps go on while all that follows is asked.
            _asked_by_command(world, expected)
            _asked_over_http(world, expected)
        world.until_read()
        made = [
            json.loads(line)["step"]
            for line in world.command("steps", world.name, "--json").stdout.splitlines()
        ]
        assert max(made) > max(expected) + ROUNDS, "steps were made meanwhile"
        assert run.terminate(90) == 0
    checked = world.command("verify", str(FILE), "--work-dir", "data/nodes", "--json", "--master", "local[2]")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    verdicts = [json.loads(line) for line in checked.stdout.splitlines() if line.startswith("{")]
    assert {each["node"] for each in verdicts} == {0, 1}
    assert all(each["agrees"] for each in verdicts)
    assert list((tmp_path / "cache" / "kcontrol" / "query").iterdir()) == [], (
        "nothing of what was copied is left"
    )


def _asked_by_command(world: World, expected: dict[int, dict[str, list[int]]]) -> None:
    first, *_, last = expected
    sql = "SELECT customer, count, sum, node FROM totals__aggregate"
    done = world.query(sql, "--json", "--step", str(first))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["step"] == first
    assert {row[0]: row[1:3] for row in answer["rows"]} == expected[first]
    assert {row[3] for row in answer["rows"]} == {0, 1}, "keys of both nodes"

    shown = world.query("SELECT customer, count FROM totals__aggregate ORDER BY 1 LIMIT 2")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["customer", "count"]
    assert lines[1].split() == ["c0", str(expected[last]["c0"][0])]
    assert lines[3].startswith(f"2 rows, as of step {last} (20")
    assert "Exception" not in shown.stderr

    rows = world.query("SELECT key, json:orders::bigint AS n FROM totals__latest", "--csv", "--limit", "5")
    read = list(csv.DictReader(io.StringIO(rows.stdout)))
    assert len(read) == 5
    assert all(int(each["n"]) == expected[last][each["key"]][0] for each in read)
    assert "more, which are left out (--limit)" in rows.stderr

    elsewhere = world.query(sql, work="elsewhere")
    assert elsewhere.returncode == 14, elsewhere.stderr
    assert "the part of node 0 of the checkpoint" in elsewhere.stderr
    assert socket.gethostname() in elsewhere.stderr
    other = world.query(sql, "--step", str(last + 1))
    assert other.returncode == 10
    assert f"kept as of step {first} and {last}" in other.stderr
    assert world.command("query", world.name).returncode == 2


def _asked_over_http(world: World, expected: dict[int, dict[str, list[int]]]) -> None:
    (world.directory / "token").write_text(SECRET)
    guarded = ("--token-file", "token", "--work-dir", "data/nodes", "--max-timeout", "250", "--niceness", "0")
    with world.process("answers", "query-server", "--port", "0", "--json", *guarded) as answers:
        answers.says('"query_server"', PATIENCE_S)
        url = _told(answers, "query_server")
        server = ("serve", "--port", "0", "--json", "--request-timeout", "260", "--query-server", url)
        with world.process("serve", *server, "--query-token-file", "token") as serve:
            serve.says('"serve"')
            with httpx.Client(base_url=_told(serve, "serve"), timeout=PATIENCE_S) as client:
                _questions(client, world, expected)
            assert serve.terminate() == 0
        answers.kill()  # What it has copied goes with the next one.
    with world.process("again", "query-server", "--port", "0", "--json", *guarded) as answers:
        answers.says('"query_server"', PATIENCE_S)
        assert answers.terminate() == 0


def _questions(client: httpx.Client, world: World, expected: dict[int, dict[str, list[int]]]) -> None:
    path = f"/v1/pipelines/{world.name}/query"
    until(lambda: client.get("/health/ready").status_code == 200, "the server is ready")

    def asked(status: int = 200, **question: Any) -> Any:
        answer = client.post(path, json=question)
        assert answer.status_code == status, answer.text
        return answer.json()

    for step, totals in expected.items():
        found = asked(sql="SELECT customer, count, sum FROM totals__aggregate", step=step)
        assert (found["step"], {row[0]: row[1:] for row in found["rows"]}) == (step, totals)
        assert [column["type"] for column in found["columns"]] == ["string", "bigint", "bigint"]
        firsts = asked(sql="SELECT count(DISTINCT customer), count(*) FROM firsts__distinct", step=step)
        assert firsts["rows"] == [[len(totals)] * 2]
    assert asked(422, sql="DROP TABLE totals")["type"] == "urn:kcontrol:problem:statement-refused"
    assert asked(404, sql="SELECT 1", step=1_000_000)["type"] == "urn:kcontrol:problem:not-found"
    endless = "SELECT count(*) FROM range(1000000000) a CROSS JOIN range(1000000000) b WHERE a.id + b.id = -1"
    assert asked(504, sql=endless, timeout_s=2)["type"] == "urn:kcontrol:problem:too-late"
    assert asked(sql="SELECT 1")["rows"] == [[1]]


def _told(process: KcontrolProcess, what: str) -> str:
    told = next(line for line in process.text().splitlines() if line.startswith("{"))
    found: str = json.loads(told)[what]
    return found
