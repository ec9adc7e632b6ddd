"""A whole pipeline on a secured broker, each process as a principal of its own with exactly its role's
rights.

Passwords hold a word that is looked for in everything that is said, logged, written to topics and disks, and
on the command lines of every process. Rights are taken away while it runs: it halts at once and says what to
grant. One story, because each start of Spark takes seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from kcontrol import StepConsumer
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.roles import Role, Topics, needs
from kcontrol.adapters.kafka.client.rights import Operation, Right
from tests.integration.security.desks import Desk
from tests.support.following import until_read, until_status
from tests.support.orders import PIPELINE_FILE
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess
from tests.support.secured import SecuredBroker, granted

pytestmark = pytest.mark.timeout(1_500)

PATIENCE_S = 240.0
MARKER = "marker"
_SPARK_DEFAULTS = """spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.dir file://{events}
"""


class Office:
    """The pipeline `name`, and a desk for every role."""

    def __init__(self, secured: SecuredBroker, directory: Path) -> None:
        self.secured = secured
        self.directory = directory
        self.name, prefix = secured.unique("orders"), secured.unique("office")
        self.topics = Topics(
            (f"{self.name}-orders", f"{self.name}-payments"), (f"{self.name}-totals", f"{self.name}-copies")
        )
        for topic in (*self.topics.inputs, *self.topics.outputs):
            secured.create_topic(topic, 2)
        admin = secured.admin_settings(prefix)
        ensure_topics(admin, self.name)
        self.events = directory / "events"
        self.events.mkdir()
        (directory / "spark-defaults.conf").write_text(_SPARK_DEFAULTS.format(events=self.events))
        self.rights = {
            role: [
                need.right for need in needs(role, admin.names(), self.name, self.topics) if not need.optional
            ]
            for role in Role
        }
        self.users = {role: secured.unique(f"the-{role}") for role in Role}
        secured.add_users(*self.users.values())
        secured.grant({self.users[role]: rights for role, rights in self.rights.items()})
        env = {"ORDERS_PIPELINE": self.name, "SPARK_CONF_DIR": str(directory)}
        anew = {
            Role.REPLAYER: {**env, "ORDERS_PLAN_EACH_STEP": "1"}
        }  # So that there are events of both ways.
        self.desks = {
            role: Desk(directory / role.value, secured.of(user, prefix), anew.get(role, env))
            for role, user in self.users.items()
        }
        self.sent = 0

    def produce(self, count: int) -> None:
        producer = Producer(self.secured.admin_options())
        for _ in range(count):
            order = {"id": f"o{self.sent}", "customer": f"c{self.sent % 3}", "amount": self.sent}
            producer.produce(f"{self.name}-orders", json.dumps(order), partition=self.sent % 2)
            producer.produce(f"{self.name}-payments", f"payment {self.sent}", partition=self.sent % 2)
            self.sent += 1
        assert producer.flush(HANG_S) == 0

    def status(self) -> dict:
        result = self.desks[Role.VIEWER].command("status", self.name, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def until_done(self) -> None:
        until_read(
            self.desks[Role.VIEWER].settings,
            self.name,
            lambda read: read["payments"] == self.sent,
            "all is committed",
            PATIENCE_S,
        )

    def right(self, role: Role, end: str) -> Right:
        return next(right for right in self.rights[role] if right.name.endswith(end))


@pytest.fixture
def office(secured: SecuredBroker, tmp_path: Path) -> Office:
    return Office(secured, tmp_path)


def halts_until_granted(office: Office, role: Role, right: Right, more: int) -> None:
    """Take a right away while it runs: it halts and names it. Grant it, resume: it goes on."""
    user = office.users[role]
    office.secured.revoke(user, right)
    office.produce(more)
    viewer = office.desks[Role.VIEWER].settings
    until_status(viewer, office.name, lambda status: status.phase == "halted", "it has halted", PATIENCE_S)
    reason = office.status()["reason"]
    assert (
        f"does not allow User:{user} the operation Write on {right.resource}. Grant it: kafka-acls.sh"
        in reason
    )
    office.secured.grant({user: [right]})
    resumed = office.desks[Role.OPERATOR].command("resume", office.name)
    assert resumed.returncode == 0, resumed.stderr
    office.until_done()


def command_lines(*processes: KcontrolProcess) -> Iterator[str]:
    for process in processes:
        for each in (psutil.Process(process.pid), *process.descendants()):
            try:
                yield " ".join(each.cmdline())
            except psutil.Error:
                continue


def test_a_pipeline_whose_parts_have_only_their_own_rights_and_keep_every_secret(office: Office) -> None:
    coordinator = office.desks[Role.COORDINATOR].process("coordinator")
    where = ["--work-dir", str(office.directory / "work"), "--master", "local[2]"]
    node = office.desks[Role.NODE].process("node", str(PIPELINE_FILE), *where)
    with coordinator, node:
        office.produce(50)
        node.says("joins", PATIENCE_S)
        office.until_done()
        lines = list(command_lines(coordinator, node))
        write = replace(office.right(Role.NODE, "-totals"), operations=(Operation.WRITE,))
        halts_until_granted(office, Role.NODE, write, 5)
        halts_until_granted(office, Role.COORDINATOR, office.right(Role.COORDINATOR, f".{office.name}"), 5)
        operator = office.desks[Role.OPERATOR]
        for wish in ("pause", "resume", "stop"):
            assert operator.command(wish, office.name).returncode == 0, operator.said
        for name in ("orders", "payments"):
            skip = operator.command(
                "skip", office.name, "--input", name, "--partition", "0", "--to-offset", "0"
            )
            assert "steps never go back" in skip.stderr
        node.says("stands by", PATIENCE_S)
        assert node.terminate() == 0
        assert coordinator.terminate() == 0
    consumed = _consume(office)
    assert consumed == office.sent
    verified = office.desks[Role.REPLAYER].command("verify", str(PIPELINE_FILE), "--master", "local[2]")
    assert verified.returncode == 0, verified.stderr
    used = office.secured.used_by_each()
    for role in Role:
        assert used[office.users[role]] == granted(office.rights[role]), role
    _check_secrets(office, lines)


def _consume(office: Office) -> int:
    """How many copies of payments the consumer finds in all steps."""
    settings, last = office.desks[Role.CONSUMER].settings, office.status()["step"]
    copies, read = 0, 0
    with StepConsumer(office.name, settings, from_step=1, timeout=PATIENCE_S) as steps:
        while read < last:
            step = next(steps)
            copies, read = copies + len(step.records["copies"]), step.number
    return copies


def _check_secrets(office: Office, lines: list[str]) -> None:
    assert any("java" in line for line in lines)
    assert any("kcontrol.cli" in line for line in lines)
    assert [line for line in lines if MARKER in line] == []
    for desk in office.desks.values():
        assert MARKER not in desk.said
    written = [file for file in office.directory.rglob("*") if file.is_file()]
    events = [file for file in written if office.events in file.parents]
    for kind in (b"SparkListenerJobStart", b"SparkListenerSQLExecutionStart"):
        assert any(kind in file.read_bytes() for file in events), (kind, events)
    kept = (office.secured.broker.data_dir / "data").rglob("*.log")
    for file in (*written, *kept):
        content = file.read_bytes()
        for user in office.users.values():
            assert f"{MARKER}-{user}-pw".encode() not in content, file
    for file in events:
        assert not re.search(rb"secret\W+[0-9a-f]{64}", file.read_bytes()), (
            f"{file} holds the side channel's secret"
        )
