"""Members of a region that are no pipelines, as the examples have them: one acknowledges a queue, one holds a replication slot
of PostgreSQL. Both are killed. What is acknowledged is in a cut; and each message is in its topic once."""

from __future__ import annotations

import json
import sqlite3
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.regions.relay import values_of
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S, Chain
from tests.support.patience import HANG_S
from tests.support.ports import free_ports
from tests.support.postgres import PASSWORD, WHY_NOT, Database, PostgresServer, find_server
from tests.support.processes import KcontrolProcess, run_kcontrol, until

MESSAGES = 30
SLOT = "bridge"


@pytest.fixture
def database() -> Iterator[Database]:
    programs = find_server()
    if programs is None:
        pytest.skip(WHY_NOT)
    with PostgresServer(programs) as server:
        yield server.new_database()


class Outside(Chain):
    """`enrich` reads what comes from the queue and from PostgreSQL, `totals` what that writes."""

    def __init__(self, settings: ClusterSettings, home: Path, new_topic: TopicFactory, database: Database):
        super().__init__(settings, home)
        self.database = database
        self.topics = {
            name: new_topic(name, partitions=1) for name in ("orders", "changes", "enriched", "totals")
        }
        self.submit("enrich", [self.topics["orders"], self.topics["changes"]], self.topics["enriched"])
        self.submit("totals", [self.topics["enriched"]], self.topics["totals"])
        (home / "all.toml").write_text(
            'region = "all"\npipelines = ["enrich", "totals"]\nparticipants = ["mq", "pg"]\nperiod = "1 s"\n'
            'max_reset_attempts = 1000\nparticipant_lease = "30 s"\n'
        )
        self.queue_file = home / "queue.db"
        with self.queue() as queue:
            queue.execute("CREATE TABLE messages (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)")
        database.run("CREATE TABLE changes (number INTEGER PRIMARY KEY)")
        database.run("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", SLOT)
        (self.port,) = free_ports(1)
        self.sent = 0

    def queue(self) -> sqlite3.Connection:
        return sqlite3.connect(self.queue_file, timeout=30)

    def more(self, many: int = MESSAGES) -> None:
        """Into the queue, and into the database, a transaction each."""
        with self.queue() as queue:
            queue.executemany(
                "INSERT INTO messages (body) VALUES (?)", [(f"m{self.sent + at}",) for at in range(many)]
            )
        for at in range(many):
            self.database.run("INSERT INTO changes VALUES (%s)", self.sent + at)
        self.sent += many

    def waiting(self) -> tuple[int, int]:
        """How many messages, and changes, are not acknowledged. Changes: -1 while the bridge uses the slot."""
        with self.queue() as queue:
            ((messages,),) = queue.execute("SELECT count(*) FROM messages")
        peek = "SELECT count(*) FROM pg_logical_slot_peek_changes(%s, NULL, NULL) WHERE data LIKE 'table%%'"
        try:
            ((changes,),) = self.database.run(peek, SLOT)
        except psycopg.errors.ObjectInUse:
            changes = -1
        return int(messages), int(changes)

    def command(self, *arguments: str) -> str:
        done = run_kcontrol("region", *arguments, cwd=self.home, timeout_s=180)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/v1/regions/all{path}", timeout=HANG_S
        ) as answer:
            return json.load(answer)

    def newest_cut(self) -> int:
        cuts = self.get("/cuts?limit=1")["cuts"]
        return int(cuts[-1]["number"]) if cuts else 0

    def bridge(self, which: str, hint: str) -> KcontrolProcess:
        server, brokers = f"http://127.0.0.1:{self.port}", self.settings.bootstrap_servers
        host = f"host=127.0.0.1 port={self.database.server.port} user=postgres dbname={self.database.name}"
        first = (
            (str(self.queue_file), self.topics["orders"])
            if which == "mq"
            else (host, SLOT, self.topics["changes"])
        )
        module = "examples.queue_bridge" if which == "mq" else "examples.slot_bridge"
        return KcontrolProcess(
            *(*first, "all", which, server, brokers),
            log=self.home / f"{which}.log",
            cwd=self.home,
            env={"PGPASSWORD": PASSWORD, "BRIDGE_HINT": hint, "PYTHONPATH": str(Path.cwd())},
            module=module,
        )

    def check_once(self) -> None:
        """Each message is in its topic once; and what is acknowledged is in a cut."""
        for topic in ("orders", "changes"):
            name = self.topics[topic]
            (end,) = TopicAdmin(self.settings).offsets(name, 1).latest
            found = Counter(values_of(self.settings, name, 0, 0, end))
            assert len(found) == self.sent
            assert max(found.values()) == 1, found.most_common(3)


@pytest.mark.heavy
@pytest.mark.timeout(580)
def test_a_queue_is_acknowledged_and_a_slot_is_advanced_by_cuts(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path, database: Database
) -> None:
    outside = Outside(settings, tmp_path, topic_factory, database)
    outside.command("apply", "all.toml")
    serving = KcontrolProcess(
        *("serve", "--port", str(outside.port)), log=tmp_path / "serve.log", cwd=tmp_path
    )
    controller = KcontrolProcess("region-controller", log=tmp_path / "controller.log", cwd=tmp_path)
    with outside.running(), serving, controller:
        controller.says("is ready")
        until(lambda: serves(outside), "the server answers", PATIENCE_S, serving.text)
        outside.more()
        # One is told of news by hints, the other one polls: each hint to it is lost.
        with outside.bridge("mq", "127.0.0.1:0") as mq, outside.bridge("pg", "") as pg:
            acknowledged = lambda: outside.waiting() == (0, 0)  # noqa: E731
            until(acknowledged, "all is in a cut, and acknowledged", 150, lambda: mq.text() + pg.text())
            outside.check_once()
            for killed in (mq, pg):
                outside.more()
                killed.restart()
                until(acknowledged, "all is acknowledged again", 150, lambda: mq.text() + pg.text())
                outside.check_once()
            cut = outside.newest_cut()
            mq.kill()
            outside.more(5)
            until(
                lambda: any("mq" in each for each in outside.get("")["waits_for"]),
                "nobody drains without a participant",
                PATIENCE_S,
            )
            assert outside.waiting()[0] == 5, "what no cut has is not acknowledged"
            assert outside.newest_cut() >= cut
    assert outside.sent == 3 * MESSAGES + 5


def serves(outside: Outside) -> bool:
    try:
        return bool(outside.get("")["region"])
    except OSError:
        return False
